// Models that are simulated and not trained, because what differs from those that are takes next to
// no time and memory, and changes numbers.
#include <nlohmann/json.hpp>
#include <string>

#include "core/scenario/hf_readers.hpp"

namespace lockstep {

void read_granite(HfMembers& in, ModelSpec& m) {
  read_llama(in, m);
  for (const char* scale :
       {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}) {
    const double factor = in.number(scale, 1);
    if (factor != 1) in.lacks(std::string(scale) + " = " + nlohmann::json(factor).dump());
  }
}

void read_olmo(HfMembers& in, ModelSpec& m, bool second) {
  read_llama(in, m);
  if (!second) {
    in.lacks("LayerNorm without weights in place of RMS norms");
    if (in.number("clip_qkv", 0) != 0) in.lacks("clip_qkv");
    return;
  }
  m.qk_norm = true;
  in.lacks("norms of queries and keys over all heads together, and behind attention and MLP");
}

void read_opt(HfMembers& in, ModelSpec& m) {
  m.architecture = Architecture::Gpt2;
  read_base_sizes(in, m, "ffn_dim");
  m.vocab = in.integer("vocab_size", 50272);
  m.max_seq_len = in.integer("max_position_embeddings", 2048);
  m.tied_embeddings = in.boolean("tie_word_embeddings", true);
  in.lacks("two rows of the table of positions that stand for padding");
  if (const std::string act = in.text("activation_function", "relu"); act != "gelu_new") {
    in.lacks("activation_function '" + act + "'");
  }
  if (in.integer("word_embed_proj_dim", m.hidden) != m.hidden) {
    in.refuse("word_embed_proj_dim other than hidden_size is not supported: it is a projection");
  }
  if (!in.boolean("do_layer_norm_before", true)) {
    in.refuse("do_layer_norm_before = false is not supported: a last norm would be missing");
  }
  in.only("enable_bias", true, true);
  in.only("layer_norm_elementwise_affine", true, true);
  in.only("_remove_final_layer_norm", false, false);
  in.dropout("dropout", 0.1, "residual_dropout");
  in.dropout("attention_dropout", 0, "attention_dropout");
  for (const char* key : {"activation_dropout", "layerdrop"}) {
    if (in.number(key, 0) != 0) in.warn(std::string(key) + " is not applied");
  }
  for (const char* key : {"init_std", "prefix"}) in.ignore(key);
}

void read_vit(HfMembers& in, ModelSpec& m) {
  m.architecture = Architecture::Vit;
  read_base_sizes(in, m, "intermediate_size");
  m.image_size = in.integer("image_size", 224);
  m.patch_size = in.integer("patch_size", 16);
  m.norm_eps = in.number("layer_norm_eps", 1e-12);
  if (const nlohmann::json* labels = in.object("id2label")) {
    m.classes = static_cast<std::int64_t>(labels->size());
  } else {
    in.warn("id2label is missing: " + std::to_string(m.classes) + " classes are simulated");
  }
  if (in.integer("num_channels", 3) != 3) {
    in.refuse("num_channels other than 3 is not supported: images have red, green and blue");
  }
  in.lacks("a class token, in place of whose output the mean of the patches is classified");
  if (const std::string act = in.text("hidden_act", "gelu"); act != "gelu_new") {
    in.lacks("hidden_act '" + act + "'");
  }
  in.only("qkv_bias", true, true);
  in.dropout("attention_probs_dropout_prob", 0, "attention_dropout");
  in.dropout("hidden_dropout_prob", 0, "residual_dropout");
  for (const char* key : {"encoder_stride", "pooler_act", "pooler_output_size"}) in.ignore(key);
}

}  // namespace lockstep
