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

/// Refuses adapters on experts where ranks split each expert, or where a shared expert would get
/// them too.
void validate_experts_module(const Scenario& s, const std::string& name, Faults& faults) {
  const std::string key = "lora.target_modules";
  if (s.strategy.expert_tensor_parallel_degree > 1) {
    faults.refuse(
        key, "adapters of '" + name +
                 "' are not built for experts that ranks divide each "
                 "(expert_tensor_parallel_degree): expert_parallel_degree divides whole experts");
  }
  if (s.model.shared_expert_hidden > 0) {
    faults.refuse(
        key, "adapters of '" + name +
                 "' would also be those of the shared expert, which are not built: give linear_proj"
                 " and, without latent attention, linear_qkv");
  }
}

void validate_modules(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
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
      faults.refuse(
          key,
          "adapters of 'linear_qkv' would be those of latent attention's projections, which "
          "are not built; its output projection has them: linear_proj");
    } else if (m.experts > 0 && name.starts_with("linear_fc")) {
      validate_experts_module(s, name, faults);
    }
  }
}

void validate_dropout_of_adapters(const Scenario& s, Faults& faults) {
  const LoraSpec& lora = s.model.lora;
  const std::string key = "lora.dropout";
  if (lora.dropout <= 0) return;
  if (s.model.adapts_experts("linear_fc1") || s.model.adapts_experts("linear_fc2")) {
    faults.refuse(
        key,
        "adapters of experts have no dropout (nor have those of PEFT's target_parameters): "
        "leave dropout out, or linear_fc1 and linear_fc2");
  }
}

}  // namespace

void validate_lora(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  const LoraSpec& lora = m.lora;
  const bool text = m.is_text();
  const bool freezes = text || m.architecture == Architecture::Vit;
  if (!text && lora.rank != 0) {
    return faults.refuse(
        "lora.rank",
        "adapters are built for the architectures gpt2 and llama only: leave [lora] out");
  }
  if (!freezes && !m.frozen.empty()) {
    return faults.refuse(
        "model.frozen",
        "frozen parameters are built for the architectures gpt2, llama and vit only: leave frozen "
        "out");
  }
  if (m.freezes() && s.strategy.vocabulary_parallel_pipeline) {
    faults.refuse("parallelism.vocabulary_parallel_pipeline",
                  "vocabulary_parallel_pipeline with adapters or frozen parameters is not built: "
                  "leave one of "
                  "the two out");
  }
  if (lora.rank == 0) return;
  validate_modules(s, faults);
  validate_dropout_of_adapters(s, faults);
  if (!m.frozen.empty()) {
    faults.refuse("model.frozen", "with adapters (lora.rank=" + std::to_string(lora.rank) +
                                      ") all other parameters are frozen: leave model.frozen out");
  }
}

}  // namespace lockstep
