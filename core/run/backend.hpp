// Backend: all that cli and gui know about how a program runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/non_finite.hpp"
#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"
#include "core/ir/training_state.hpp"
#include "core/run/straggler_watch.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// Fills in one sample of the data, by its global index: Samples::inputs() inputs and
/// Samples::targets() targets. They are tokens and the tokens that follow them, or the intensities
/// 0 … 255 of an image, channels last, and its class. Thread-safe.
using BatchSource = std::function<void(std::int64_t sample, std::span<std::int32_t> tokens,
                                       std::span<std::int32_t> targets)>;

/// A look at data that are not trained on: after every `freq` steps of the training, the mean loss
/// of the first `steps` × Samples::per_step samples of `batches`. The weights stay as they are. The
/// simulator does none.
struct Validation {
  int freq = 0;  // 0: never
  int steps = 0;
  BatchSource batches;
};

struct RunOptions {
  int steps = 1;
  int trace_from = 0;  // spans are kept of steps [trace_from, trace_from + trace_steps)
  int trace_steps = 1;
  /// Whether the simulator fills Trace::memory, which is large: a report does not read it.
  bool memory_samples = true;
  /// Path of the data, for open_dataset; empty: synthetic data. The simulator reads none.
  std::string dataset;
  /// The folder in which every rank keeps a file while the run lasts, if the program keeps
  /// something on a drive. The simulator makes none.
  std::string drive_folder;
  /// If given, weights (and moments, if it holds them) come from here instead of from the seed, and
  /// its step continues the count of steps, the data and the learning rate's schedule.
  const TrainingState* initial_state = nullptr;
  const StateReader* resume = nullptr;  // the same, read in pieces; counts before initial_state
  bool return_state = false;            // fill RunResult::state
  /// If given, the state is saved there, in the background, every `checkpoint_every` steps (0:
  /// never on the way) and after the last step of the run. An error of saving ends the run.
  StateStore* store = nullptr;
  int checkpoint_every = 0;
  NonFinite on_nonfinite = NonFinite::GoOn;
  SpikeLimits spikes;
  /// What saving took of the training's time; called before on_step of the step that was saved.
  std::function<void(Seconds)> on_save;
  Validation validation;
  std::function<void(double loss)> on_validation;   // before on_step of the step that it follows
  std::function<void(const Waits&)> on_waits;       // of a step; before its on_step
  std::function<void(const StepResult&)> on_step;   // called from the caller's thread
  std::function<void(const std::string&)> on_note;  // what a user should know of; likewise
  std::function<void(const std::string&)> on_straggler;  // that a rank is one, or none any more
  const std::atomic<bool>* cancel = nullptr;  // once it is true, the run stops after its step
};

/// Why a run has ended.
enum class Ending {
  Done,      // all steps have run
  Stopped,   // some process was cancelled
  Diverged,  // NonFinite::Stop, or nothing was left to go back to
};

struct RunResult {
  Trace trace;
  TrainingState state;
  Ending ending = Ending::Done;
  int steps_done = 0;                  // of the whole training
  std::optional<int> saved_step = {};  // of the last state that was saved
};

struct Device;

/// The device of a program's only rank, for who runs its ops by himself.
struct OwnDevice {
  virtual ~OwnDevice() = default;
  virtual Device& device() = 0;
};

struct Backend {
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "sim", "cpu", "cuda" or "reference"
  /// Requires verify(program).empty(). The simulator computes times from `cluster`; the backends
  /// that compute take the time that they need on this machine and ignore it.
  virtual Result<RunResult> run(const Program& program, const ClusterSpec& cluster,
                                const RunOptions& options) = 0;
  /// Opens the device of a program of one rank, which must outlive it. Error Unsupported if the
  /// backend computes nothing.
  virtual Result<std::unique_ptr<OwnDevice>> open_device(const Program& program) {
    static_cast<void>(program);
    return Error{ErrorKind::Unsupported,
                 "backend '" + std::string(name()) + "' computes nothing: use cpu or cuda",
                 std::nullopt};
  }
};

}  // namespace lockstep
