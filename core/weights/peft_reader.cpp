#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/convert.hpp"
#include "core/base/json_depth.hpp"
#include "core/base/read_file.hpp"
#include "core/base/shape_text.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/hugging_face/tensors.hpp"
#include "core/weights/adapters.hpp"
#include "core/weights/merged_state.hpp"
#include "core/weights/weight_files.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDown = ".lora_A.weight", kUp = ".lora_B.weight";

/// Keys of adapter_config.json (peft.LoraConfig) that do not change what the adapters add, or whose
/// meaning the tensors show themselves: the ranks, and which layers have adapters.
constexpr std::array<std::string_view, 26> kHarmless = {"auto_mapping",
                                                        "base_model_name_or_path",
                                                        "ensure_weight_tying",
                                                        "eva_config",
                                                        "exclude_modules",
                                                        "fan_in_fan_out",
                                                        "inference_mode",
                                                        "init_lora_weights",
                                                        "layers_pattern",
                                                        "layers_to_transform",
                                                        "loftq_config",
                                                        "lora_alpha",
                                                        "lora_dropout",
                                                        "megatron_config",
                                                        "megatron_core",
                                                        "peft_type",
                                                        "peft_version",
                                                        "qalora_group_size",
                                                        "r",
                                                        "rank_pattern",
                                                        "revision",
                                                        "runtime_config",
                                                        "target_modules",
                                                        "task_type",
                                                        "use_rslora",
                                                        "bias"};

Error not_merged(const std::string& path, const std::string& what) {
  return {ErrorKind::Unsupported,
          path + ": " + what + "; merge with PEFT's merge_and_unload() and import the result",
          std::nullopt};
}

bool is_set(const nlohmann::json& value) {
  return !(value.is_null() || value == false ||
           ((value.is_object() || value.is_array()) && value.empty()));
}

/// adapter_config.json, as far as it says by how much B A is multiplied.
struct PeftConfig {
  double alpha = 0;
  bool by_root = false;  // divided by the root of the rank (rsLoRA, Kalajdzievski 2023)
  double scale(std::int64_t rank) const {
    const auto r = static_cast<double>(rank);
    return alpha / (by_root ? std::sqrt(r) : r);
  }
};

Result<PeftConfig> read_config(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  const auto json = nests_too_deep(*text)
                        ? nlohmann::json()
                        : nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return Error{ErrorKind::Parse, path + ": this is no JSON object", std::nullopt};
  }
  if (json.value("peft_type", nlohmann::json()) != "LORA") {
    return not_merged(path, "peft_type is not \"LORA\", the only kind that can be merged here");
  }
  const auto alpha = json.find("lora_alpha");
  if (alpha == json.end() || !alpha->is_number()) {
    return Error{ErrorKind::Parse, path + ": 'lora_alpha' is not there, or no number",
                 std::nullopt};
  }
  for (const auto& [key, value] : json.items()) {
    if (!is_set(value)) continue;
    // Other kinds of beginning subtract what the adapters begin with from the weights of the model.
    const bool keeps_base =
        value == true || value == "gaussian" || value == "eva" || value == "orthogonal";
    if ((key == "bias" && value != "none") || (key == "init_lora_weights" && !keeps_base) ||
        std::find(kHarmless.begin(), kHarmless.end(), key) == kHarmless.end()) {
      return not_merged(path, "'" + key + "' is " + value.dump() +
                                  ", and may change other weights than adapters do here");
    }
  }
  return PeftConfig{alpha->get<double>(), is_set(json.value("use_rslora", nlohmann::json()))};
}

/// Weights with PEFT's adapters, which it holds.
class PeftState final : public StateReader {
 public:
  explicit PeftState(TrainingState adapters) : adapters_(std::move(adapters)), held_(adapters_) {}
  const StateReader& adapters() const { return held_; }
  void merge(const StateReader& state, LowRankTerms terms) {
    merged_ = add_low_rank(state, held_, std::move(terms));
    head_ = merged_->head();
  }
  Result<void> read(const std::string& tensor, std::int64_t begin,
                    std::span<std::byte> to) const override {
    return merged_->read(tensor, begin, to);
  }

 private:
  TrainingState adapters_;
  HeldState held_;
  std::unique_ptr<StateReader> merged_;
};

}  // namespace

Result<std::unique_ptr<StateReader>> merge_peft_adapters(const StateReader& state,
                                                         const ModelSpec& spec,
                                                         const std::string& folder) {
  const auto config = read_config((fs::path(folder) / "adapter_config.json").string());
  if (!config) return config.error();
  const std::string path = (fs::path(folder) / "adapter_model.safetensors").string();
  auto file = read_safetensors(path);
  if (!file) return file.error();
  TrainingState tensors;
  tensors.tensors = std::move(file->tensors);
  std::set<std::string> unused;
  for (const auto& [name, tensor] : tensors.tensors) unused.insert(name);
  auto merged = std::make_unique<PeftState>(std::move(tensors));
  const auto& there = merged->adapters().head().tensors;
  LowRankTerms terms;
  const auto family = hf_family_of(spec);
  if (!family) return family.error();
  for (const Parameter& weight : parameters_of(spec)) {
    const auto parts = hf_tensors(**family, spec, weight);
    if (!parts) return parts.error();
    for (const HfTensor& part : *parts) {
      if (!part.name.ends_with(".weight") || part.shape.size() != 2) continue;
      const std::string module =
          "base_model.model." +
          part.name.substr(0, part.name.size() - std::string_view(".weight").size());
      const auto down = there.find(module + std::string(kDown));
      const auto up = there.find(module + std::string(kUp));
      if (down == there.end() || up == there.end()) continue;  // with one alone, it stays unused
      if (part.count > 0) return no_adapters(part);
      const std::int64_t rows = part.shape[part.transposed ? 1 : 0];
      const std::int64_t inputs = part.shape[part.transposed ? 0 : 1];
      const std::int64_t rank = down->second.shape.empty() ? 0 : down->second.shape[0];
      for (const auto& [tensor, shape] :
           {std::pair(down, std::vector{rank, inputs}), std::pair(up, std::vector{rows, rank})}) {
        if (rank < 1 || tensor->second.shape != shape || !is_real(tensor->second.dtype)) {
          return invalid(path + ": tensor '" + tensor->first + "' has shape " +
                         shape_text(tensor->second.shape) + " of " +
                         std::string(to_string(tensor->second.dtype)) +
                         ", the model's layer needs real numbers in shape " + shape_text(shape));
        }
        unused.erase(tensor->first);
      }
      terms[weight.name].push_back(
          {down->first, up->first, part.begin / inputs, config->scale(rank)});
    }
  }
  if (!unused.empty()) {
    return not_merged(path, "the model has no linear layer for tensor '" + *unused.begin() +
                                "' and " + std::to_string(unused.size() - 1) + " others");
  }
  if (terms.empty()) return invalid(path + ": there are no adapters in this file");
  merged->merge(state, std::move(terms));
  return std::unique_ptr<StateReader>(std::move(merged));
}

}  // namespace lockstep
