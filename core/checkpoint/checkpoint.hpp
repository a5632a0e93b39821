// Checkpoint: a TrainingState on disk. Its tensors are whole (unsharded) and named after
// parameters, so that any mesh can resume what any other one saved.
//
//   DIRECTORY/step-120/model.safetensors       parameters
//   DIRECTORY/step-120/optimizer.safetensors   adam_m.<parameter>, adam_v.<parameter>
//   DIRECTORY/latest                           "step-120": the newest complete checkpoint
// Both files carry the step in their metadata; a pair whose steps differ is refused. So is the loss
// scale of the next step, if the loss is scaled: to_string(LossScale).
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "core/ir/state.hpp"

namespace lockstep {

/// Writes DIRECTORY/step-N, N = state.step, and makes it the latest; creates DIRECTORY if needed.
/// Everything is written under another name and renamed when it is on the disk, so that a crash
/// leaves the previous checkpoint usable. An older step-N is kept as step-N.old until it is
/// replaced.
/// Error InvalidSpec if the folder cannot be written.
Result<void> save_checkpoint(const TrainingState& state, const std::string& directory);

/// Reads a step-N folder, or the newest checkpoint of a folder that holds `latest`. Weights of
/// another tool (model.safetensors without a step) load as step 0 without optimizer state. Errors:
/// those of read_safetensors; InvalidSpec if there is no checkpoint.
Result<TrainingState> load_checkpoint(const std::string& directory);

}  // namespace lockstep
