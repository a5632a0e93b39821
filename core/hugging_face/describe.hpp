// What descriptions of families share. Internal to core/hugging_face.
#pragma once

#include <string>

#include "core/hugging_face/keys.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

/// Gives a model these parts: those that its architecture does not have.
void set_parts(ModelSpec& m, Architecture architecture, const BlockParts& parts);

/// As many heads of keys as of queries, which share the hidden size evenly. Without heads, which is
/// refused later, their size is 0.
void set_equal_heads(ModelSpec& m);

/// The sizes of a decoder; where a configuration class has a default of its own, it is given.
struct HfSizes {
  std::int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  bool tied = false;
  std::int64_t heads = 0, kv_heads = 0, vocab = 0, positions = 0;  // 0: none; those of queries
};
void describe_sizes(HfKeys& keys, ModelSpec& m, const HfSizes& usual = {});
/// The sizes of BERT, OPT and ViT, whose classes have the same defaults: those of a base model.
/// `ffn` is the key of the width of the MLP.
void describe_base_sizes(HfKeys& keys, ModelSpec& m, const char* ffn);

/// The activation of the feed-forward network, which is gated or not as the model's is. GELU is
/// computed in its approximation by tanh, which a warning says where the file names the other.
void describe_activation(HfKeys& keys, ModelSpec& m, const char* key, const char* otherwise);

/// Rotary positions: their base, what scales them, and the share of a head that is rotated. What
/// rope_parameters of transformers 5 say counts before the keys of transformers 4.
void describe_rope(HfKeys& keys, ModelSpec& m, double theta = 10000.0,
                   const char* key = "rope_theta");
void describe_rotary_share(HfKeys& keys, ModelSpec& m, const char* key, double otherwise);

/// A window in all blocks. Null or missing: none, or `otherwise`.
void describe_window(HfKeys& keys, ModelSpec& m, std::int64_t otherwise = 0);
/// layer_types, or a window in all but the last of every `period` blocks.
void describe_window_period(HfKeys& keys, ModelSpec& m, std::int64_t period);

/// Warnings of mixtures of experts: that here they have room for a number of tokens; and of a loss
/// that balances them and that transformers does not add.
void warn_of_room(HfMembers& in);
void warn_of_unused_balance(HfMembers& in, double balance);

/// What Llama, Mistral, Qwen, Phi-3, Mixtral, Gemma, Granite and OLMo have in common.
struct LlamaUsual {
  HfSizes sizes = {};
  const char* activation = "hidden_act";  // the key
  const char* activation_name = "silu";
  double rope_theta = 10000.0;
  BlockParts parts = kLlamaParts;
  const char* eps = "rms_norm_eps";
  double eps_value = 1e-6;
};
void describe_llama_like(HfKeys& keys, ModelSpec& m, const LlamaUsual& usual);

}  // namespace lockstep
