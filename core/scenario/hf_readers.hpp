// Readers of config.json by model_type. Internal to core/scenario.
#pragma once

#include <cstdint>

#include "core/scenario/hf_members.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

/// The sizes of BERT, OPT and ViT, whose classes have the same defaults: those of a base model.
/// `ffn` is the key of the width of the MLP.
void read_base_sizes(HfMembers& in, ModelSpec& m, const char* ffn);

/// What Llama, Mistral, Qwen, Phi-3, Mixtral, Gemma, Granite and OLMo have in common. Where a
/// configuration class has a default of its own, it is given.
struct LlamaDefaults {
  std::int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  bool tied = false;
  const char* activation = "hidden_act";  // the key
};
void read_llama(HfMembers& in, ModelSpec& m, const LlamaDefaults& defaults = {});

/// Granite 3: a Llama with scales.
void read_granite(HfMembers& in, ModelSpec& m);
/// OLMo and OLMo 2: a Llama with other norms.
void read_olmo(HfMembers& in, ModelSpec& m, bool second);
/// OPT: a GPT-2 with ReLU, whose table of positions has two rows more.
void read_opt(HfMembers& in, ModelSpec& m);
/// ViT with its classifier (ViTForImageClassification).
void read_vit(HfMembers& in, ModelSpec& m);

}  // namespace lockstep
