// Fusion: finds where a matrix product of a program may compute the GELU that follows it, or the
// gradient of GELU, in its epilogue. A driver may still refuse any such pair.
#pragma once

#include <vector>

#include "core/ir/program.hpp"

namespace lockstep::cuda {

/// For each kernel of the function that op `id` calls: the index of the later kernel that may run
/// in its epilogue, with the same results in every buffer that anything reads; -1 if there is none.
/// The pairs are:
///   c = a b + bias; …; y = gelu(c)        c and y are both written
///   dy = a b; …; dx = dy gelu'(x)         dy is not written, so nothing else may read it
/// What lies between the two neither touches y (dx) nor writes c (dy) or x.
std::vector<int> epilogues(const Program& program, const Role& role, OpId id);

}  // namespace lockstep::cuda
