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
  std::string dataset;  // path of the data (open_dataset); empty: synthetic ones. Not of "sim"
  const TrainingState* initial_state = nullptr;  // instead of the seed: weights, and moments if it
                                                 // holds them; its step continues the step count,
                                                 // the data and the learning-rate schedule
  bool return_state = false;                     // RunResult::state
  int checkpoint_every = 0;                      // steps; 0: never
  std::function<Result<void>(const TrainingState&)> on_checkpoint;  // an error ends the run
  std::function<void(const StepResult&)> on_step;  // called from the caller's thread
  const std::atomic<bool>* cancel = nullptr;       // set: stop after the current step
};

struct RunResult {
  Trace trace;
  TrainingState state;
};

struct Backend {
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "sim", "cpu", "cuda"
  /// Requires verify(program).empty(). The simulator takes the times of `cluster`; backends that
  /// compute do so wherever they are.
  virtual Result<RunResult> run(const Program& program, const ClusterSpec& cluster,
                                const RunOptions& options) = 0;
};

}  // namespace lockstep
