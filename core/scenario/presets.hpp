// Presets: model shapes by name, and cluster profiles embedded from hardware/*.toml.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/spec/model.hpp"

namespace lockstep {

/// The preset of this name; case does not matter.
std::optional<ModelSpec> find_model_preset(std::string_view name);

struct EmbeddedProfile {
  std::string_view name;  // the file's name without .toml
  std::string_view text;  // TOML
};
/// hardware/*.toml, sorted by name; generated at build time (cmake/LockstepHardware.cmake).
const std::vector<EmbeddedProfile>& embedded_profiles();
std::optional<EmbeddedProfile> find_cluster_preset(std::string_view name);

/// frameworks/*.toml, likewise.
const std::vector<EmbeddedProfile>& embedded_frameworks();

}  // namespace lockstep
