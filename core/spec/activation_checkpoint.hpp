// ActivationCheckpointSpec: what a transformer block computes a second time, in the backward pass,
// instead of keeping it (Chen et al. 2016). Names are torchtitan's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

enum class ActivationCheckpoint { None, Selective, Full };

/// Which results of a block's forward pass are computed again for the backward pass.
struct Recompute {
  bool everything = false;  // all results, so that only the block's input is kept
  bool norms = false;
  bool activations = false;  // GELU and SwiGLU
  bool attention = false;    // core attention (Korthikanti et al. 2022)
  bool any() const { return everything || norms || activations || attention; }
  bool operator==(const Recompute&) const = default;
};

struct ActivationCheckpointSpec {
  ActivationCheckpoint mode = ActivationCheckpoint::None;
  /// In selective mode: a number k, for everything in every k-th block; or one of
  /// selective_options().
  std::string selective_ac_option = "2";
  /// By virtual stage: so many of its first blocks do what `mode` says, and the others keep
  /// everything. Empty: all blocks of all stages do what `mode` says.
  std::vector<int> recomputed_layers_per_stage;
  /// What the block recomputes; nullopt if the option is not valid.
  std::optional<Recompute> of_block(std::int64_t block) const;
  bool operator==(const ActivationCheckpointSpec&) const = default;
};

/// The options that are not numbers: "op" (norms and activation functions, which are cheap),
/// "norm", "activation" and "attention".
const std::vector<std::string>& selective_options();

}  // namespace lockstep
