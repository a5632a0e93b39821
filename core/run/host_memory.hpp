// host_memory: whether the ranks of a program find room in the memory of this machine.
#pragma once

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Ranks that run on CPUs: [first, end).
struct HostRanks {
  Rank first = 0, end = 0;
};

/// An error of kind OutOfMemory if the arenas of `machine`, the ranks that run on this machine, are
/// larger than what it has free, or if this process may not map those of `own`, its ranks, beside
/// the stacks of their threads (`ulimit -v`). It is asked before anything is allocated: a program
/// that the system ends, or that runs out of memory between two steps, cannot say why.
Result<void> check_host_memory(const Program& program, HostRanks machine, HostRanks own,
                               int threads_per_rank);

}  // namespace lockstep
