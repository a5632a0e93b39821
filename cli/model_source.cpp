#include "cli/model_source.hpp"

#include <filesystem>

#include "core/checkpoint/checkpoint.hpp"
#include "core/hugging_face/config.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/spec/validate/validate.hpp"
#include "core/weights/weight_files.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Result<void> open_run_folder(const fs::path& folder, ModelSource& source) {
  const LoadedScenario loaded = load_scenario((folder / "scenario.toml").string(), {});
  if (!loaded.ok()) return loaded.errors.front();
  const Scenario& scenario = loaded.points.front().scenario;
  source.model = scenario.model;
  const auto place = find_checkpoints(folder.string(), scenario.checkpoint.folder);
  if (!place) return place.error();
  const auto found = find_checkpoint(*place);
  if (!found) return found.error();
  for (const std::string& damaged : found->damaged) source.warnings.push_back(invalid(damaged));
  auto state = open_checkpoint(*found);
  if (!state) return state.error();
  source.weights = std::move(*state);
  const auto& tensors = source.weights->head().tensors;
  const auto table = tensors.find("embed.wte");
  if (table == tensors.end()) return invalid(folder.string() + ": the model has no embedding");
  source.dtype = table->second.dtype;
  return {};
}

/// Sizes that mean nothing would be arithmetic on them before anything else notices.
Result<void> check_sizes(const ModelSpec& model, const std::string& path) {
  Scenario scenario;
  scenario.model = model;
  for (const Fault& fault : validate(scenario)) {
    if (fault.key.starts_with("model.")) return invalid(path + ": " + fault.error.message);
  }
  return {};
}

}  // namespace

Result<ModelSource> open_model(const std::string& path, const std::string& tokenizer) {
  const fs::path folder(path);
  ModelSource source;
  if (fs::exists(folder / "scenario.toml")) {
    if (auto opened = open_run_folder(folder, source); !opened) return opened.error();
  } else if (fs::exists(folder / "config.json")) {
    auto config = read_hf_config((folder / "config.json").string());
    if (!config) return config.error();
    source.model = std::move(config->model);
    if (auto sized = check_sizes(source.model, (folder / "config.json").string()); !sized) {
      return sized.error();
    }
    if (!source.model.simulated_only.empty()) {
      return Error{ErrorKind::Unsupported,
                   path +
                       ": the model can be simulated (model.hf_config), and its weights have no "
                       "use here: Lockstep lacks " +
                       source.model.simulated_only,
                   std::nullopt};
    }
    for (const std::string& warning : config->warnings) source.warnings.push_back(invalid(warning));
    auto weights = open_hf_weights(path, source.model, source.dtype);
    if (!weights) return weights.error();
    source.weights = std::move(*weights);
  } else {
    return invalid(path +
                   ": is neither a run folder (scenario.toml) nor a model of Hugging Face's "
                   "transformers (config.json)");
  }
  if (!tokenizer.empty() || has_tokenizer(path)) {
    auto opened = open_tokenizer(tokenizer.empty() ? path : tokenizer);
    if (!opened) return opened.error();
    source.tokenizer = std::move(*opened);
    if (source.tokenizer->vocabulary() > source.model.vocab) {
      return invalid("the tokenizer has " + std::to_string(source.tokenizer->vocabulary()) +
                     " tokens, and the model's vocabulary " + std::to_string(source.model.vocab));
    }
  } else if (source.model.vocab == 256) {
    source.tokenizer = byte_tokenizer();
  }
  return source;
}

}  // namespace lockstep
