// Training: a scenario trained on this machine, from its beginning or from a checkpoint.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "lockstep/run.hpp"
#include "lockstep/scenario.hpp"

namespace lockstep::api {
inline namespace v1 {

/// What a step came to, as a line of metrics.jsonl says it.
struct TrainingStep {
  int step = 0, last = 0;  // counted from 1 in the whole training; the one at which the call ends
  double loss = 0, grad_norm = 0, lr = 0, time_s = 0;
  std::optional<double> validation_loss;  // of the data that are not trained on, where it was due
};

struct TrainingOptions {
  std::string backend = "cpu";  // or "cuda", "reference"
  std::string folder;           // run folder, with checkpoints and metrics; empty: none is written
  /// Where to go on: "auto" where the folder has checkpoints, else from the beginning; or another
  /// run folder, or a folder of checkpoints. Empty: from the beginning.
  std::string resume;
  /// How many steps to train; with resume "auto", the step at which to end. 0: the scenario's.
  int steps = 0;
  int threads = 1;                  // of each rank
  std::vector<std::string> accept;  // settings that may differ from those of the checkpoint
  /// Called after every step; false ends the training there, with a checkpoint.
  std::function<bool(const TrainingStep&)> on_step;
};

enum class TrainingEnd { Done, Stopped, Diverged };

struct Training {
  std::vector<TrainingStep> steps;  // those of this call; none if all had been trained before
  std::vector<std::string> notes;   // what one should know of, such as a damaged checkpoint
  TrainingEnd end = TrainingEnd::Done;
  std::string diverged;  // what is not finite, and where to go on
  /// Figures, timeline and memory; if nothing was left to train, those that the folder has.
  std::optional<Run> run;
};

/// Trains all ranks of the scenario in this process, as `lockstep run` does, with the same bits and
/// the same files. Blocks until the last step has ended. Faults name options as the command line
/// does: --out is `folder`.
LOCKSTEP_EXPORT Result<Training> train(const Scenario& scenario,
                                       const TrainingOptions& options = {});

}  // namespace v1
}  // namespace lockstep::api
