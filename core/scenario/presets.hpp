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
  std::string_view name;  // the file's name without its extension
  std::string_view text;
};
/// hardware/*.toml, sorted by name; generated at build time (cmake/LockstepHardware.cmake).
const std::vector<EmbeddedProfile>& embedded_profiles();
std::optional<EmbeddedProfile> find_cluster_preset(std::string_view name);

/// frameworks/*.toml, likewise.
const std::vector<EmbeddedProfile>& embedded_frameworks();
/// The pages that explain the keys of a scenario: docs/scenario/*.md and docs/framework.md.
const std::vector<EmbeddedProfile>& embedded_key_pages();

}  // namespace lockstep
