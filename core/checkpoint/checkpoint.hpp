// Checkpoint: a training state on disk. Its tensors are whole (unsharded) and named after
// parameters, so that any mesh can resume what any other one saved.
//
//   DIRECTORY/step-120/model.safetensors       parameters
//   DIRECTORY/step-120/optimizer.safetensors   adam_m.<parameter>, adam_v.<parameter>; of replicas
//                                              that train apart, outer.<parameter>,
//                                              outer_momentum.<parameter> and replica<i>.<tensor>
//   DIRECTORY/step-120/manifest.json           what the checkpoint is, and checksums
//   DIRECTORY/latest                           "step-120": the newest checkpoint
// A checkpoint is written as step-120.new and renamed when all of it is on the disk. The files'
// metadata hold the step and StateHead::notes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/ir/training_state.hpp"

namespace lockstep {

/// A checkpoint that was found and read through: every tensor is what was saved.
struct FoundCheckpoint {
  std::string folder;  // step-N
  Manifest manifest;   // step 0 and no settings, if `verified` is false
  /// False for weights of another tool (model.safetensors without a step), and for what was let
  /// through: they have no manifest that could be checked.
  bool verified = true;
  /// Why newer checkpoints were passed over.
  std::vector<std::string> damaged;
};

/// Finds what `directory` means: a step-N folder, a folder with model.safetensors, or else the
/// newest whole checkpoint in a folder of checkpoints. That is the one that `latest` names; if it
/// is damaged, or `latest` is, the one of the highest step. Errors: Parse if the checkpoint that
/// was named is damaged, InvalidSpec if there is none. With `unverified`, a checkpoint without a
/// manifest is let through.
Result<FoundCheckpoint> find_checkpoint(const std::string& directory, bool unverified = false);

/// Whether a folder of checkpoints holds one, whole or damaged. What a crash left of a first save
/// that was never finished is none.
bool any_checkpoint(const std::string& directory);

/// Opens a folder that find_checkpoint() has found, without reading tensors.
Result<std::unique_ptr<StateReader>> open_checkpoint(const FoundCheckpoint& found);

/// Removes what a crash has left in a folder of checkpoints, or finishes it where it was whole.
/// Only for who holds the lock of the run folder.
void mend_checkpoints(const std::string& directory);

/// Saves and loads a state that is in memory as a whole. Errors are those of CheckpointStore and
/// find_checkpoint().
Result<void> save_checkpoint(const TrainingState& state, const std::string& directory);
Result<TrainingState> load_checkpoint(const std::string& directory);

}  // namespace lockstep
