#include "core/hugging_face/config.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/json_depth.hpp"
#include "core/base/read_file.hpp"
#include "core/hugging_face/families.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

/// Model types that people have, and what they would need.
constexpr std::pair<std::string_view, std::string_view> kLacking[] = {
    {"gemma3", "an encoder of images; its text model has the model_type gemma3_text"},
    {"mistral3", "an encoder of images; its text model has the model_type mistral"},
    {"llama4", "an encoder of images, and attention in chunks"},
    {"qwen2_vl", "an encoder of images; its text model is a qwen2"},
    {"qwen2_5_vl", "an encoder of images; its text model is a qwen2"},
    {"qwen3_vl", "an encoder of images; its text model is a qwen3"},
    {"qwen3_next", "linear attention in three of four blocks"},
    {"clip", "two encoders whose outputs are compared; one of images alone has the model_type vit"},
    {"t5", "an encoder and a decoder that reads it"},
    {"bart", "an encoder and a decoder that reads it"},
    {"whisper", "an encoder of sound and a decoder that reads it"},
    {"mamba", "state spaces in the place of attention"},
    {"mamba2", "state spaces in the place of attention"},
    {"jamba", "state spaces beside attention"},
    {"rwkv", "a recurrence in the place of attention"},
};

/// Why a model of this type cannot be read.
std::string why_not(const std::string& type) {
  const std::string refused = "model_type '" + type + "' is not supported";
  for (const auto& [known, needs] : kLacking) {
    if (known == type) return refused + ": it needs " + std::string(needs);
  }
  std::string valid;
  for (const HfFamily& family : hf_families()) {
    valid += (valid.empty() ? "" : ", ") + std::string(family.type);
  }
  return refused + "; valid: " + valid;
}

/// What a config.json says of a model, without what is only of a training here, in one spelling.
ModelSpec said_of(ModelSpec m) {
  const ModelSpec fresh;
  const BlockParts parts = m.parts();
  if (m.is_text()) m.architecture = Architecture::Gpt2;
  m.norm = parts.norm;
  m.activation = parts.activation;
  m.positions = parts.positions;
  m.biases = parts.biases;
  if (m.sliding_window == 0) m.global_period = 0;
  if (!m.is_rotary()) m.rope_theta = fresh.rope_theta;
  m.name.clear();
  m.frozen.clear();
  m.lora = {};
  m.mask_token = fresh.mask_token;
  m.capacity_factor = fresh.capacity_factor;
  m.expert_rank_capacity_factor = fresh.expert_rank_capacity_factor;
  m.router_imbalance = fresh.router_imbalance;
  m.experts_per_token = m.experts > 0 ? m.experts_per_token : fresh.experts_per_token;
  return m;
}

nlohmann::ordered_json written_as(const HfFamily& family, const ModelSpec& spec) {
  nlohmann::ordered_json config = {{"architectures", {family.model_class}},
                                   {"model_type", family.type}};
  HfKeys keys(config);
  ModelSpec copy = spec;
  family.describe(keys, copy);
  return config;
}

/// The family of the class that a file names under "architectures"; null if it is not known.
const HfFamily* family_of_class(const Json& config) {
  const auto found = config.find("architectures");
  if (found == config.end() || !found->is_array() || found->size() != 1) return nullptr;
  for (const HfFamily& family : hf_families()) {
    if (found->front() == std::string(family.model_class)) return &family;
  }
  return nullptr;
}

/// The model of text of one that also reads images or sound.
Result<HfModel> read_text_model(const Json& text, const std::string& type,
                                const std::string& path) {
  const auto own = text.find("model_type");
  if (own == text.end() || !own->is_string() ||
      find_hf_family(own->get<std::string>()) == nullptr) {
    return Error{ErrorKind::Unsupported, path + ": " + why_not(type), std::nullopt};
  }
  Result<HfModel> read = parse_hf_config(text.dump(), path);
  if (!read) return read;
  read->warnings.insert(read->warnings.begin(), path + ": only the model of text of model_type '" +
                                                    type + "' is read (text_config, a " +
                                                    own->get<std::string>() +
                                                    "): what it reads beside text is left out");
  return read;
}

}  // namespace

Result<const HfFamily*> hf_family_of(const ModelSpec& spec) {
  const HfFamily* unusual = nullptr;
  for (const HfFamily& family : hf_families()) {
    if (family.names.empty()) continue;
    const Json config = Json::parse(written_as(family, spec).dump());
    HfMembers in(config, "");
    HfKeys keys(in);
    ModelSpec again;
    family.describe(keys, again);
    if (in.error() || !in.lacking().empty() || said_of(again) != said_of(spec)) continue;
    if (!family.activation || family.activation == spec.parts().activation) return &family;
    unusual = &family;
  }
  if (unusual != nullptr) return unusual;
  return Error{
      ErrorKind::Unsupported,
      "model '" + spec.name + "' has no layout in Hugging Face's transformers that is known here",
      std::nullopt};
}

Result<HfModel> parse_hf_config(std::string_view json, const std::string& path) {
  const Json config =
      nests_too_deep(json) ? Json() : Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return Error{ErrorKind::Parse, path + " is not a JSON object", std::nullopt};
  }
  HfModel read;
  HfMembers in(config, path);
  const std::string type = in.text("model_type", "");
  const HfFamily* family = find_hf_family(type);
  if (family == nullptr) {
    if (const Json* text = in.object("text_config")) return read_text_model(*text, type, path);
    family = family_of_class(config);
    if (family == nullptr) {
      in.refuse(why_not(type));
      return *in.error();
    }
    in.warn("model_type '" + type + "' is read as a " + std::string(family->type) +
            ", whose class its architectures name");
  }
  HfKeys keys(in);
  family->describe(keys, read.model);
  read.family = family;
  if (type == "deepseek_v3" && in.object("quantization_config") != nullptr) {
    in.warn(
        "quantization_config says how the released weights are stored, not how they are trained");
  } else if (in.object("quantization_config") != nullptr) {
    in.refuse("quantized weights are not supported: give the configuration of the full model");
  }
  if (in.error()) return *in.error();
  read.model.simulated_only = in.lacking();
  if (!in.lacking().empty()) {
    in.warn("the model can be simulated, and not trained: Lockstep lacks " + in.lacking());
  }
  in.warn_of_rest();
  read.warnings = in.take_warnings();
  read.dropouts = in.take_dropouts();
  const std::filesystem::path file(path);
  read.model.name = in.text("_name_or_path", "");
  if (read.model.name.empty()) {
    const std::string folder = file.parent_path().filename().string();
    read.model.name = folder.empty() ? type : folder;
  }
  return read;
}

Result<HfModel> read_hf_config(const std::string& path) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::string file = folder ? (std::filesystem::path(path) / "config.json").string() : path;
  const Result<std::string> text = read_file(file);
  if (!text) return text.error();
  return parse_hf_config(*text, file);
}

Result<std::string> print_hf_config(const ModelSpec& spec, const std::string& dtype) {
  const auto family = hf_family_of(spec);
  if (!family) return family.error();
  nlohmann::ordered_json config = written_as(**family, spec);
  config["torch_dtype"] = dtype;
  return config.dump(2) + "\n";
}

}  // namespace lockstep
