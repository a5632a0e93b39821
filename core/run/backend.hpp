// Backend: all that cli and gui know about how a program runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"
#include "core/ir/state.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

struct RunOptions {
  int steps = 1;
  int trace_from = 0;  // spans are kept of steps [trace_from, trace_from + trace_steps)
  int trace_steps = 1;
  /// Path of the data, for open_dataset; empty: synthetic data. The simulator reads none.
  std::string dataset;
  /// If given, weights (and moments, if it holds them) come from here instead of from the seed, and
  /// its step continues the count of steps, the data and the learning rate's schedule.
  const TrainingState* initial_state = nullptr;
  bool return_state = false;  // fill RunResult::state
  int checkpoint_every = 0;   // steps from one on_checkpoint to the next; 0: never
  std::function<Result<void>(const TrainingState&)> on_checkpoint;  // its error ends the run
  std::function<void(const StepResult&)> on_step;  // called from the caller's thread
  const std::atomic<bool>* cancel = nullptr;       // once it is true, the run stops after its step
};

struct RunResult {
  Trace trace;
  TrainingState state;
};

struct Backend {
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "sim", "cpu", "cuda" or "reference"
  /// Requires verify(program).empty(). The simulator computes times from `cluster`; the backends
  /// that compute take the time that they need on this machine and ignore it.
  virtual Result<RunResult> run(const Program& program, const ClusterSpec& cluster,
                                const RunOptions& options) = 0;
};

}  // namespace lockstep
