// Presets: model shapes by name, cluster profiles embedded from hardware/*.toml, and shapes read
// from a Hugging Face config.json.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
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

struct HfModel {
  ModelSpec model;
  std::int64_t sliding_window = 0;    // how many tokens a query sees; 0: all
  std::vector<std::string> warnings;  // of keys that change numbers there and not here
  /// By key of [training] that it says nothing of: a warning, unless the scenario gives that key.
  std::map<std::string, std::string> dropouts;
};
/// Reads a config.json of the model types gpt2, llama, mistral, mixtral, phi3, qwen2, qwen3 and
/// qwen3_moe, in the spellings of transformers 4 and 5. `path` becomes the name of the model and
/// begins the message of an error, because the error has no place in the scenario.
Result<HfModel> read_hf_config(const std::string& path);
Result<HfModel> parse_hf_config(std::string_view json, const std::string& path);

}  // namespace lockstep
