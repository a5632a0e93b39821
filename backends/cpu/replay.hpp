// Replay: how long kernels take where a program runs them, after each other and on the memory that
// its ranks have.
#pragma once

#include <functional>
#include <vector>

#include "core/base/result.hpp"
#include "core/calibration/calibration.hpp"
#include "core/ir/program.hpp"

namespace lockstep::cpu {

struct ReplayOptions {
  double seconds = 1;   // for which each rank replays
  int least_steps = 5;  // and so many at least, beside two that warm up
  std::function<void(int done, int all)> on_progress;  // steps of rank 0; `all` is an estimate
};

/// Runs the calls of every rank's compute stream in list order, each rank on a thread of its own
/// and all at one time. Ranks neither send nor wait for each other, so what they compute has no
/// meaning: memory begins as zeros. Times are processor time of the thread, in which other work
/// that interrupts it does not count: of each kernel of the list the median over steps, and of
/// kernels that do the same work the mean. Calls whose operands lie in host memory are left out.
/// Error OutOfMemory if this machine cannot give a rank's arena.
Result<std::vector<KernelTime>> replay(const Program& program, const ReplayOptions& options);

}  // namespace lockstep::cpu
