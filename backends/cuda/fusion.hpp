// Fusion: where a matrix product of a program may take the GELU behind it, or GELU's gradient, into
// its epilogue. What a driver makes of it is its own affair: it may refuse any pair.
#pragma once

#include <vector>

#include "core/ir/program.hpp"

namespace lockstep::cuda {

/// By kernel of the function that `id` calls: which later one may run in this one's epilogue, with
/// the same results in every buffer that anything reads; -1: none.
///   c = a b + bias; …; y = gelu(c)        both are written
///   dy = a b; …; dx = dy gelu'(x)         dy is not: nothing else may read it
/// What lies between neither touches y (dx), nor writes c (dy) or x.
std::vector<int> epilogues(const Program& program, const Role& role, OpId id);

}  // namespace lockstep::cuda
