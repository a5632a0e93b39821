// ActivationCheckpointSpec: what a transformer block computes a second time, in the backward pass,
// instead of keeping it (Chen et al. 2016). Names are torchtitan's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

enum class ActivationCheckpoint { None, Selective, Full };

/// Results of a block's forward pass that backward gets from a second computation.
struct Recompute {
  bool everything = false;  // all: only the block's input is kept
  bool norms = false;
  bool activations = false;  // GELU, SwiGLU
  bool attention = false;    // core attention (Korthikanti et al. 2022)
  bool any() const { return everything || norms || activations || attention; }
  bool operator==(const Recompute&) const = default;
};

struct ActivationCheckpointSpec {
  ActivationCheckpoint mode = ActivationCheckpoint::None;
  std::string selective_ac_option = "2";  // a number k: every k-th block wholly; or an option below
  /// None if the option means nothing.
  std::optional<Recompute> of_block(std::int64_t block) const;
  bool operator==(const ActivationCheckpointSpec&) const = default;
};

/// Options beside numbers: "op" (what is cheap: norms and activation functions), "norm",
/// "activation", "attention".
const std::vector<std::string>& selective_options();

}  // namespace lockstep
