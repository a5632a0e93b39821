// Adapters (LoRA), and parameters that are frozen.
#include <algorithm>
#include <cmath>

#include "core/base/nearest.hpp"
#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

/// The name here of a module that other tools name by its parts: queries, keys and values are one
/// linear layer here, and so are gate and up projection.
std::string module_of(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"q_proj", "linear_qkv"},    {"k_proj", "linear_qkv"},  {"v_proj", "linear_qkv"},
      {"wq", "linear_qkv"},        {"wk", "linear_qkv"},      {"wv", "linear_qkv"},
      {"qkv_proj", "linear_qkv"},  {"c_attn", "linear_qkv"},  {"query_key_value", "linear_qkv"},
      {"o_proj", "linear_proj"},   {"wo", "linear_proj"},     {"attn.c_proj", "linear_proj"},
      {"gate_proj", "linear_fc1"}, {"up_proj", "linear_fc1"}, {"gate_up_proj", "linear_fc1"},
      {"c_fc", "linear_fc1"},      {"w1", "linear_fc1"},      {"w3", "linear_fc1"},
      {"down_proj", "linear_fc2"}, {"w2", "linear_fc2"},      {"mlp.c_proj", "linear_fc2"},
  };
  for (const auto& [theirs, ours] : kNames) {
    if (name == theirs) return std::string(ours);
  }
  return nearest(name, {kLoraModules.begin(), kLoraModules.end()});
}

void validate_modules(const ModelSpec& m, Faults& faults) {
  const std::string key = "lora.target_modules";
  for (const std::string& name : m.lora.target_modules) {
    if (std::find(kLoraModules.begin(), kLoraModules.end(), name) == kLoraModules.end()) {
      const std::string near = module_of(name);
      std::string valid;
      for (const std::string_view module : kLoraModules) {
        valid += (valid.empty() ? "" : ", ") + std::string(module);
      }
      faults.add(key, "unknown module '" + name + "'" +
                          (near.empty() ? "" : "; did you mean '" + near + "'?") +
                          "; valid: " + valid);
    } else if (m.is_latent() && name == "linear_qkv") {
      faults.add(key,
                 "adapters of 'linear_qkv' would be those of latent attention's projections, which "
                 "are not built; its output projection has them: linear_proj",
                 ErrorKind::Unsupported);
    } else if (m.experts > 0 && name.starts_with("linear_fc")) {
      faults.add(key,
                 "adapters of '" + name +
                     "' would be those of experts, which are not built: experts stay frozen; "
                     "valid for this model: " +
                     (m.is_latent() ? "linear_proj" : "linear_qkv, linear_proj"),
                 ErrorKind::Unsupported);
    }
  }
}

}  // namespace

void validate_lora(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  const LoraSpec& lora = m.lora;
  if (lora.rank == 0 && lora != LoraSpec{}) {
    faults.add("lora.rank", "[lora] without a rank adds no adapters: give rank, such as 8");
  }
  const bool text = m.architecture == Architecture::Gpt2 || m.architecture == Architecture::Llama;
  const bool freezes = text || m.architecture == Architecture::Vit;
  if (!text && lora.rank != 0) {
    return faults.add("lora.rank", "adapters are of the gpt2 and llama architectures",
                      ErrorKind::Unsupported);
  }
  if (!freezes && !m.frozen.empty()) {
    return faults.add("model.frozen",
                      "frozen parameters are of the gpt2, llama and vit architectures",
                      ErrorKind::Unsupported);
  }
  if (m.freezes() && s.strategy.vocabulary_parallel_pipeline) {
    faults.add("parallelism.vocabulary_parallel_pipeline",
               "vocabulary_parallel_pipeline with adapters or frozen parameters is not built",
               ErrorKind::Unsupported);
  }
  if (lora.rank == 0) return;
  if (!faults.positive("lora.rank", lora.rank, 1 << 16)) return;
  faults.require(std::isfinite(lora.alpha) && lora.alpha > 0, "lora.alpha", "must be positive");
  validate_modules(m, faults);
  if (!m.frozen.empty()) {
    faults.add("model.frozen", "with adapters (lora.rank=" + std::to_string(lora.rank) +
                                   ") all other parameters are frozen: leave model.frozen out");
  }
}

}  // namespace lockstep
