// What Repeats finds in a program. It stands apart because core/schedule and core/ir/kernels, which
// a test of lowering and one of meaning include, both have a Placement.
#pragma once

#include <vector>

#include "core/ir/program.hpp"

namespace lockstep::test {

/// By microbatch, the one that it repeats; itself if it repeats none.
std::vector<Microbatch> originals(const Program& program);

}  // namespace lockstep::test
