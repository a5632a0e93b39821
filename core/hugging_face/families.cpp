// One file, because a family is read as a whole: its tensors beside its keys, its row at the end.
#include "core/hugging_face/families.hpp"

#include <algorithm>
#include <cmath>

#include "core/hugging_face/describe.hpp"
#include "core/hugging_face/simulated.hpp"

namespace lockstep {
namespace {

using How = HfHow;

// ---------------------------------------------------------------- Llama, and what is nearly one

constexpr HfName kLlamaNames[] = {
    {"embed.wte", "model.embed_tokens.weight"},
    {"head.norm.weight", "model.norm.weight"},
    {"head.norm.bias", "model.norm.bias"},
    {"head.lm_head", "lm_head.weight"},
    {"norm1.weight", "input_layernorm.weight"},
    {"norm2.weight", "post_attention_layernorm.weight"},
    {"ln1.weight", "input_layernorm.weight"},
    {"ln1.bias", "input_layernorm.bias"},
    {"ln2.weight", "post_attention_layernorm.weight"},
    {"ln2.bias", "post_attention_layernorm.bias"},
    {"attn.wqkv", "self_attn.{q,k,v}_proj.weight"},
    {"attn.bqkv", "self_attn.{q,k,v}_proj.bias"},
    {"attn.wo", "self_attn.o_proj.weight"},
    {"attn.bo", "self_attn.o_proj.bias"},
    {"attn.q_norm", "self_attn.q_norm.weight"},
    {"attn.k_norm", "self_attn.k_norm.weight"},
    {"mlp.w13", "mlp.{gate,up}_proj.weight"},
    {"mlp.w2", "mlp.down_proj.weight"},
    {"mlp.wfc", "mlp.up_proj.weight"},
    {"mlp.wproj", "mlp.down_proj.weight"},
};
constexpr HfName kFusedNames[] = {
    {"attn.wqkv", "self_attn.qkv_proj.weight"},
    {"mlp.w13", "mlp.gate_up_proj.weight"},
};
constexpr HfName kMixtralNames[] = {
    {"moe.router", "block_sparse_moe.gate.weight"},
    {"moe.experts.w13", "block_sparse_moe.experts.#.{w1,w3}.weight"},
    {"moe.experts.w2", "block_sparse_moe.experts.#.w2.weight"},
};
constexpr HfName kQwenExpertNames[] = {
    {"moe.router", "mlp.gate.weight"},
    {"moe.experts.w13", "mlp.experts.#.{gate,up}_proj.weight"},
    {"moe.experts.w2", "mlp.experts.#.down_proj.weight"},
};

void describe_llama(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m, {});
  for (const char* biases : {"attention_bias", "mlp_bias"}) keys.only(biases, false, false);
}

void describe_mistral(HfKeys& keys, ModelSpec& m) {
  describe_llama(keys, m);
  describe_window(keys, m);
}

/// Mixtures of experts: the loss that balances them, and what else training does with them.
void describe_experts(HfKeys& keys, ModelSpec& m, const char* experts, std::int64_t chosen) {
  keys.integer(experts, m.experts);
  keys.integer("num_experts_per_tok", m.experts_per_token, chosen);
  HfMembers* const in = keys.reading();
  bool balances = m.router_aux_loss_coef > 0;
  double balance = m.router_aux_loss_coef;
  keys.number("router_aux_loss_coef", balance, 0);
  keys.boolean("output_router_logits", balances, false);
  if (in == nullptr) return;
  if (balances) {
    m.router_aux_loss_coef = balance;
    if (balance > 0) {
      in->warn(
          "router_aux_loss_coef is applied to every layer by itself, where transformers takes "
          "all layers together");
    }
  } else if (balance > 0) {
    warn_of_unused_balance(*in, balance);
  }
  if (in->number("router_jitter_noise", 0) != 0) in->warn("router_jitter_noise is not applied");
  warn_of_room(*in);
}

void describe_mixtral(HfKeys& keys, ModelSpec& m) {
  describe_mistral(keys, m);
  describe_experts(keys, m, "num_local_experts", 2);
}

/// Windows of Qwen are in the blocks from max_window_layers on.
void describe_qwen_window(HfKeys& keys, ModelSpec& m) {
  HfMembers* const in = keys.reading();
  bool windows = m.sliding_window > 0;
  std::int64_t without = 0;
  keys.boolean("use_sliding_window", windows, false);
  keys.integer("max_window_layers", without, 28);
  describe_window(keys, m, windows ? 4096 : 0);
  if (in == nullptr) return;
  in->list("layer_types");
  if (!windows || without >= m.layers) m.sliding_window = 0;
  if (m.sliding_window > 0 && without > 0) {
    in->lacks("max_window_layers = " + std::to_string(without));
  }
}

void describe_qwen2(HfKeys& keys, ModelSpec& m) {
  describe_llama(keys, m);
  if (keys.reading() != nullptr) m.qkv_bias = true;
  describe_qwen_window(keys, m);
}

void describe_qwen3(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m, {.sizes = {.head_dim = 128}});
  keys.only("attention_bias", false, false);
  if (keys.reading() != nullptr) m.qk_norm = true;
  describe_qwen_window(keys, m);
}

void describe_qwen_experts(HfKeys& keys, ModelSpec& m, std::int64_t chosen) {
  describe_experts(keys, m, "num_experts", chosen);
  keys.integer("moe_intermediate_size", m.ffn_hidden);
  keys.only("norm_topk_prob", true, false);
  HfMembers* const in = keys.reading();
  if (in == nullptr) return;
  if (in->integer("decoder_sparse_step", 1) != 1 || in->has_elements("mlp_only_layers")) {
    in->refuse(
        "decoder_sparse_step other than 1 and mlp_only_layers are not supported: blocks without "
        "experts would be of another width");
  }
}

void describe_qwen3_moe(HfKeys& keys, ModelSpec& m) {
  describe_qwen3(keys, m);
  describe_qwen_experts(keys, m, 8);
}

void describe_qwen2_moe(HfKeys& keys, ModelSpec& m) {
  describe_qwen2(keys, m);
  describe_qwen_experts(keys, m, 4);
  keys.integer("shared_expert_intermediate_size", m.shared_expert_hidden, 5632);
  if (keys.reading() != nullptr) m.shared_expert_gate = true;
}

void describe_phi3(HfKeys& keys, ModelSpec& m) {
  describe_mistral(keys, m);
  describe_rotary_share(keys, m, "partial_rotary_factor", 1);
  keys.dropout("embd_pdrop", 0, "embedding_dropout");
  keys.dropout("resid_pdrop", 0, "residual_dropout");
  if (HfMembers* const in = keys.reading()) {
    m.fused_names = true;
    in->integer("original_max_position_embeddings", 0);  // of rope scaling
  } else {
    keys.object("pad_token_id", nullptr);  // the default is a token's id
  }
}

/// Granite 3: a Llama with scales.
void describe_granite(HfKeys& keys, ModelSpec& m) {
  describe_llama(keys, m);
  keys.number("embedding_multiplier", m.embedding_multiplier, 1);
  keys.number("attention_multiplier", m.attention_multiplier, 1);
  keys.number("residual_multiplier", m.residual_multiplier, 1);
  double divisor = 1 / m.logit_multiplier;
  keys.number("logits_scaling", divisor, 1);
  if (keys.reading() != nullptr && divisor > 0) m.logit_multiplier = 1 / divisor;
}

/// Arcee's AFM: a Llama with squared ReLU in the place of a gate.
void describe_arcee(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(
      keys, m,
      {.activation_name = "relu2",
       .parts = {NormKind::RmsNorm, Activation::SquaredRelu, Positions::Rotary, false},
       .eps_value = 1e-5});
  for (const char* biases : {"attention_bias", "mlp_bias"}) keys.only(biases, false, false);
}

// ---------------------------------------------------------------- Gemma

constexpr HfName kGemmaNorms[] = {
    {"head.norm.weight", "model.norm.weight", How::LessOne},
    {"norm1.weight", "input_layernorm.weight", How::LessOne},
    {"norm2.weight", "post_attention_layernorm.weight", How::LessOne},
};
constexpr HfName kGemma2Norms[] = {
    {"head.norm.weight", "model.norm.weight", How::LessOne},
    {"norm1.weight", "input_layernorm.weight", How::LessOne},
    {"norm1_last.weight", "post_attention_layernorm.weight", How::LessOne},
    {"norm2.weight", "pre_feedforward_layernorm.weight", How::LessOne},
    {"norm2_last.weight", "post_feedforward_layernorm.weight", How::LessOne},
    {"attn.q_norm", "self_attn.q_norm.weight", How::LessOne},
    {"attn.k_norm", "self_attn.k_norm.weight", How::LessOne},
};

/// Gemma (arXiv:2403.08295). Its first files have hidden_act, too, which transformers passes over.
void describe_any_gemma(HfKeys& keys, ModelSpec& m, const HfSizes& sizes, double theta) {
  BlockParts parts = kLlamaParts;
  parts.activation = Activation::Geglu;
  describe_llama_like(keys, m,
                      {.sizes = sizes,
                       .activation = "hidden_activation",
                       .activation_name = "gelu_pytorch_tanh",
                       .rope_theta = theta,
                       .parts = parts});
  keys.only("attention_bias", false, false);
  HfMembers* const in = keys.reading();
  if (in == nullptr) return;
  in->text("hidden_act", "");
  m.embedding_multiplier = std::sqrt(static_cast<double>(std::max<std::int64_t>(1, m.hidden)));
}

constexpr HfSizes kGemmaSizes{.head_dim = 256, .tied = true};

void describe_gemma(HfKeys& keys, ModelSpec& m) { describe_any_gemma(keys, m, kGemmaSizes, 10000); }

/// What Gemma 2 (arXiv:2408.00118) and 3 have beside: scores are divided by the root of a number of
/// its own.
void describe_later_gemma(HfKeys& keys, ModelSpec& m, const HfSizes& sizes, double theta) {
  describe_any_gemma(keys, m, sizes, theta);
  const double scale = m.attention_multiplier;
  double scalar = scale > 0 ? 1 / (scale * scale) : static_cast<double>(m.head_dim);
  if (std::abs(scalar - std::round(scalar)) < 1e-9 * scalar) scalar = std::round(scalar);
  keys.number("query_pre_attn_scalar", scalar, 256);
  if (keys.reading() == nullptr) return;
  m.norm_place = NormPlace::Around;
  const bool usual = scalar == static_cast<double>(m.head_dim) || !(scalar > 0);
  m.attention_multiplier = usual ? 0 : 1 / std::sqrt(scalar);
}

void describe_gemma2(HfKeys& keys, ModelSpec& m) {
  describe_later_gemma(keys, m, kGemmaSizes, 10000);
  keys.number_or_null("attn_logit_softcapping", m.attention_softcap, 50);
  keys.number_or_null("final_logit_softcapping", m.logit_softcap, 30);
  describe_window(keys, m, 4096);
  describe_window_period(keys, m, 2);
  keys.ignore("sliding_window_size");
}

void describe_gemma3(HfKeys& keys, ModelSpec& m) {
  HfMembers* const in = keys.reading();
  keys.number("rope_local_base_freq", m.local_rope_theta, 10000);
  describe_later_gemma(keys, m,
                       {.head_dim = 256,
                        .tied = true,
                        .heads = 8,
                        .kv_heads = 4,
                        .vocab = 262208,
                        .positions = 131072},
                       1000000);
  keys.ignore("attn_logit_softcapping");  // which its attention does not apply
  keys.number_or_null("final_logit_softcapping", m.logit_softcap, 0);
  describe_window(keys, m, 4096);
  std::int64_t period = 6;
  if (in != nullptr) {
    m.qk_norm = true;
    period = in->integer("_sliding_window_pattern", in->integer("sliding_window_pattern", 6));
  }
  keys.only("use_bidirectional_attention", false, false);
  describe_window_period(keys, m, period);
  if (in != nullptr && m.sliding_window == 0) m.local_rope_theta = 0;
}

// ---------------------------------------------------------------- GPT-2, GPT-NeoX, OPT, others

constexpr HfName kGpt2Names[] = {
    {"embed.wte", "transformer.wte.weight"},
    {"embed.wpe", "transformer.wpe.weight"},
    {"head.norm.weight", "transformer.ln_f.weight"},
    {"head.norm.bias", "transformer.ln_f.bias"},
    {"head.lm_head", "lm_head.weight"},
    {"ln1.weight", "ln_1.weight"},
    {"ln1.bias", "ln_1.bias"},
    {"attn.wqkv", "attn.c_attn.weight", How::Transposed},
    {"attn.bqkv", "attn.c_attn.bias"},
    {"attn.wo", "attn.c_proj.weight", How::Transposed},
    {"attn.bo", "attn.c_proj.bias"},
    {"ln2.weight", "ln_2.weight"},
    {"ln2.bias", "ln_2.bias"},
    {"mlp.wfc", "mlp.c_fc.weight", How::Transposed},
    {"mlp.bfc", "mlp.c_fc.bias"},
    {"mlp.wproj", "mlp.c_proj.weight", How::Transposed},
    {"mlp.bproj", "mlp.c_proj.bias"},
};

void describe_gpt2(HfKeys& keys, ModelSpec& m) {
  HfMembers* const in = keys.reading();
  keys.integer("n_layer", m.layers);
  keys.integer("n_embd", m.hidden);
  keys.integer("n_head", m.heads);
  if (in != nullptr) {
    m.architecture = Architecture::Gpt2;
    set_equal_heads(m);
  }
  keys.integer("n_inner", m.ffn_hidden, m.hidden < (std::int64_t{1} << 40) ? 4 * m.hidden : 0);
  keys.integer("vocab_size", m.vocab);
  keys.integer("n_positions", m.max_seq_len);
  keys.boolean("tie_word_embeddings", m.tied_embeddings, true);
  keys.number("layer_norm_epsilon", m.norm_eps, 1e-5);
  describe_activation(keys, m, "activation_function", "gelu_new");
  keys.only("scale_attn_weights", true, true);
  keys.only("scale_attn_by_inverse_layer_idx", false, false);
  if (in != nullptr && in->boolean("add_cross_attention", false)) {
    in->refuse("add_cross_attention = true is not supported: its layers are not built");
  }
  keys.dropout("attn_pdrop", 0.1, "attention_dropout");
  keys.dropout("embd_pdrop", 0.1, "embedding_dropout");
  keys.dropout("resid_pdrop", 0.1, "residual_dropout");
}

constexpr HfName kNeoxNames[] = {
    {"embed.wte", "gpt_neox.embed_in.weight"},
    {"head.norm.weight", "gpt_neox.final_layer_norm.weight"},
    {"head.norm.bias", "gpt_neox.final_layer_norm.bias"},
    {"head.lm_head", "embed_out.weight"},
    {"ln1.weight", "input_layernorm.weight"},
    {"ln1.bias", "input_layernorm.bias"},
    {"ln2.weight", "post_attention_layernorm.weight"},
    {"ln2.bias", "post_attention_layernorm.bias"},
    {"attn.wqkv", "attention.query_key_value.weight", How::ByHead},
    {"attn.bqkv", "attention.query_key_value.bias", How::ByHead},
    {"attn.wo", "attention.dense.weight"},
    {"attn.bo", "attention.dense.bias"},
    {"mlp.wfc", "mlp.dense_h_to_4h.weight"},
    {"mlp.bfc", "mlp.dense_h_to_4h.bias"},
    {"mlp.wproj", "mlp.dense_4h_to_h.weight"},
    {"mlp.bproj", "mlp.dense_4h_to_h.bias"},
};

/// GPT-NeoX and Pythia: a GPT-2 with parallel branches, of whose heads a part is rotated.
void describe_gpt_neox(HfKeys& keys, ModelSpec& m) {
  HfMembers* const in = keys.reading();
  BlockParts parts = kGpt2Parts;
  parts.positions = Positions::Rotary;
  if (in != nullptr) set_parts(m, Architecture::Gpt2, parts);
  keys.integer("num_hidden_layers", m.layers);
  keys.integer("hidden_size", m.hidden);
  keys.integer("num_attention_heads", m.heads);
  if (in != nullptr) set_equal_heads(m);
  keys.integer("intermediate_size", m.ffn_hidden);
  keys.integer("vocab_size", m.vocab);
  keys.integer("max_position_embeddings", m.max_seq_len, 2048);
  keys.boolean("tie_word_embeddings", m.tied_embeddings, false);
  keys.number("layer_norm_eps", m.norm_eps, 1e-5);
  describe_rotary_share(keys, m, "rotary_pct", 0.25);
  describe_rope(keys, m, 10000, "rotary_emb_base");
  for (const char* same : {"partial_rotary_factor", "rope_theta"}) keys.ignore(same);
  describe_activation(keys, m, "hidden_act", "gelu");
  keys.boolean("use_parallel_residual", m.parallel_branches, true);
  keys.only("attention_bias", true, true);
  keys.dropout("attention_dropout", 0, "attention_dropout");
  keys.dropout("hidden_dropout", 0, "residual_dropout");
  keys.ignore("classifier_dropout");
}

constexpr HfName kOptNames[] = {
    {"embed.wte", "model.decoder.embed_tokens.weight"},
    {"embed.wpe", "model.decoder.embed_positions.weight", How::PaddingRows},
    {"head.norm.weight", "model.decoder.final_layer_norm.weight"},
    {"head.norm.bias", "model.decoder.final_layer_norm.bias"},
    {"head.lm_head", "lm_head.weight"},
    {"ln1.weight", "self_attn_layer_norm.weight"},
    {"ln1.bias", "self_attn_layer_norm.bias"},
    {"ln2.weight", "final_layer_norm.weight"},
    {"ln2.bias", "final_layer_norm.bias"},
    {"attn.wqkv", "self_attn.{q,k,v}_proj.weight"},
    {"attn.bqkv", "self_attn.{q,k,v}_proj.bias"},
    {"attn.wo", "self_attn.out_proj.weight"},
    {"attn.bo", "self_attn.out_proj.bias"},
    {"mlp.wfc", "fc1.weight"},
    {"mlp.bfc", "fc1.bias"},
    {"mlp.wproj", "fc2.weight"},
    {"mlp.bproj", "fc2.bias"},
};

/// OPT (arXiv:2205.01068): a GPT-2 with ReLU.
void describe_opt(HfKeys& keys, ModelSpec& m) {
  HfMembers* const in = keys.reading();
  BlockParts parts = kGpt2Parts;
  parts.activation = Activation::Relu;
  if (in != nullptr) set_parts(m, Architecture::Gpt2, parts);
  describe_base_sizes(keys, m, "ffn_dim");
  keys.integer("vocab_size", m.vocab, 50272);
  keys.integer("max_position_embeddings", m.max_seq_len, 2048);
  keys.boolean("tie_word_embeddings", m.tied_embeddings, true);
  describe_activation(keys, m, "activation_function", "relu");
  std::int64_t projected = m.hidden;
  keys.integer("word_embed_proj_dim", projected, m.hidden);
  if (projected != m.hidden) {
    in->refuse("word_embed_proj_dim other than hidden_size is not supported: it is a projection");
  }
  if (in != nullptr && !in->boolean("do_layer_norm_before", true)) {
    in->refuse("do_layer_norm_before = false is not supported: a last norm would be missing");
  }
  keys.only("enable_bias", true, true);
  keys.only("layer_norm_elementwise_affine", true, true);
  keys.only("_remove_final_layer_norm", false, false);
  keys.dropout("dropout", 0.1, "residual_dropout");
  keys.dropout("attention_dropout", 0, "attention_dropout");
  if (in == nullptr) return;
  for (const char* key : {"activation_dropout", "layerdrop"}) {
    if (in->number(key, 0) != 0) in->warn(std::string(key) + " is not applied");
  }
  for (const char* key : {"init_std", "prefix"}) in->ignore(key);
}

constexpr HfName kStarcoderNames[] = {
    {"mlp.wfc", "mlp.c_fc.weight"},
    {"mlp.bfc", "mlp.c_fc.bias"},
    {"mlp.wproj", "mlp.c_proj.weight"},
    {"mlp.bproj", "mlp.c_proj.bias"},
};

/// StarCoder 2 (arXiv:2402.19173): the parts of a GPT-2 with rotary positions and grouped queries.
void describe_starcoder2(HfKeys& keys, ModelSpec& m) {
  BlockParts parts = kGpt2Parts;
  parts.positions = Positions::Rotary;
  describe_llama_like(keys, m,
                      {.sizes = {.tied = true},
                       .activation_name = "gelu_pytorch_tanh",
                       .parts = parts,
                       .eps = "norm_epsilon",
                       .eps_value = 1e-5});
  describe_window(keys, m);
  keys.only("use_bias", true, true);
  for (const char* said : {"mlp_type", "norm_type"}) keys.ignore(said);
  keys.dropout("residual_dropout", 0, "residual_dropout");
  keys.dropout("embedding_dropout", 0, "embedding_dropout");
}

/// StableLM 2: a Llama with LayerNorm, of whose heads a part is rotated.
void describe_stablelm(HfKeys& keys, ModelSpec& m) {
  BlockParts parts = kLlamaParts;
  parts.norm = NormKind::LayerNorm;
  describe_llama_like(keys, m, {.parts = parts, .eps = "layer_norm_eps", .eps_value = 1e-5});
  describe_rotary_share(keys, m, "partial_rotary_factor", 0.25);
  keys.boolean("use_qkv_bias", m.qkv_bias, false);
  keys.boolean("use_parallel_residual", m.parallel_branches, false);
  keys.only("qk_layernorm", false, false);
  keys.dropout("hidden_dropout", 0, "residual_dropout");
  if (keys.reading() != nullptr) m.shared_norm = m.parallel_branches;
}

constexpr HfName kNemotronNorms[] = {
    {"head.norm.weight", "model.norm.weight", How::LessOne},
    {"ln1.weight", "input_layernorm.weight", How::LessOne},
    {"ln2.weight", "post_attention_layernorm.weight", How::LessOne},
};

/// Nemotron (arXiv:2402.16819): squared ReLU, LayerNorm with weights less one.
void describe_nemotron(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(
      keys, m,
      {.activation_name = "relu2",
       .parts = {NormKind::LayerNorm, Activation::SquaredRelu, Positions::Rotary, false},
       .eps = "norm_eps",
       .eps_value = 1e-5});
  describe_rotary_share(keys, m, "partial_rotary_factor", 0.5);
  for (const char* biases : {"attention_bias", "mlp_bias"}) keys.only(biases, false, false);
}

// ---------------------------------------------------------------- BERT and RoBERTa

constexpr HfName kEncoderNames[] = {
    {"attn.wqkv", "attention.self.{query,key,value}.weight"},
    {"attn.bqkv", "attention.self.{query,key,value}.bias"},
    {"attn.wo", "attention.output.dense.weight"},
    {"attn.bo", "attention.output.dense.bias"},
    {"ln1.weight", "attention.output.LayerNorm.weight"},
    {"ln1.bias", "attention.output.LayerNorm.bias"},
    {"mlp.wfc", "intermediate.dense.weight"},
    {"mlp.bfc", "intermediate.dense.bias"},
    {"mlp.wproj", "output.dense.weight"},
    {"mlp.bproj", "output.dense.bias"},
    {"ln2.weight", "output.LayerNorm.weight"},
    {"ln2.bias", "output.LayerNorm.bias"},
};
constexpr HfName kBertNames[] = {
    {"embed.wte", "bert.embeddings.word_embeddings.weight"},
    {"embed.wpe", "bert.embeddings.position_embeddings.weight"},
    {"embed.wtt", "bert.embeddings.token_type_embeddings.weight"},
    {"embed.norm.weight", "bert.embeddings.LayerNorm.weight"},
    {"embed.norm.bias", "bert.embeddings.LayerNorm.bias"},
    {"head.transform.weight", "cls.predictions.transform.dense.weight"},
    {"head.transform.bias", "cls.predictions.transform.dense.bias"},
    {"head.norm.weight", "cls.predictions.transform.LayerNorm.weight"},
    {"head.norm.bias", "cls.predictions.transform.LayerNorm.bias"},
    {"head.bias", "cls.predictions.bias"},
};
constexpr HfName kRobertaNames[] = {
    {"embed.wte", "roberta.embeddings.word_embeddings.weight"},
    {"embed.wpe", "roberta.embeddings.position_embeddings.weight", How::PaddingRows},
    {"embed.wtt", "roberta.embeddings.token_type_embeddings.weight"},
    {"embed.norm.weight", "roberta.embeddings.LayerNorm.weight"},
    {"embed.norm.bias", "roberta.embeddings.LayerNorm.bias"},
    {"head.transform.weight", "lm_head.dense.weight"},
    {"head.transform.bias", "lm_head.dense.bias"},
    {"head.norm.weight", "lm_head.layer_norm.weight"},
    {"head.norm.bias", "lm_head.layer_norm.bias"},
    {"head.bias", "lm_head.bias"},
};

/// BERT, or RoBERTa and what has its classes under another name, with the head for masked tokens.
/// BERT's weights were trained with GELU's approximation by tanh (modeling.py of
/// google-research/bert), which transformers calls "gelu_new".
void describe_encoder(HfKeys& keys, ModelSpec& m, bool roberta) {
  HfMembers* const in = keys.reading();
  const std::int64_t padding = roberta ? kHfPaddingRows : 0;
  if (in != nullptr) {
    m.architecture = Architecture::Gpt2;
    m.norm_place = NormPlace::BehindSum;
    m.embedding_norm = m.head_transform = true;
  }
  describe_base_sizes(keys, m, "intermediate_size");
  keys.integer("vocab_size", m.vocab, roberta ? 50265 : 30522);
  std::int64_t rows = m.max_seq_len + padding;
  keys.integer("max_position_embeddings", rows, 512);
  keys.integer("type_vocab_size", m.token_types, 2);
  keys.number("layer_norm_eps", m.norm_eps, 1e-12);
  keys.boolean("tie_word_embeddings", m.tied_embeddings, true);
  describe_activation(keys, m, "hidden_act", "gelu");
  std::int64_t padding_token = roberta ? kHfPaddingRows - 1 : 0;
  keys.integer("pad_token_id", padding_token, padding_token);
  keys.dropout("attention_probs_dropout_prob", 0.1, "attention_dropout");
  keys.dropout("hidden_dropout_prob", 0.1, "residual_dropout");
  keys.ignore("classifier_dropout");
  if (in == nullptr) return keys.integer("mask_token_id", m.mask_token);  // which it keeps
  m.max_seq_len = rows - padding;
  m.causal = in->boolean("is_decoder", false);
  if (m.causal || in->boolean("add_cross_attention", false)) {
    in->refuse("is_decoder and add_cross_attention are not supported: only the encoder is built");
  }
  // The ids of [MASK] in the vocabularies that were published; of others, model.mask_token says it.
  if (m.vocab == 30522 || m.vocab == 28996) m.mask_token = 103;
  if (m.vocab == 50265 || m.vocab == 250002) m.mask_token = m.vocab - 1;
  m.mask_token = in->integer("mask_token_id", m.mask_token);
  if (const std::string type = in->text("position_embedding_type", "absolute");
      type != "absolute") {
    in->refuse("position_embedding_type '" + type + "' is not supported: a table is built");
  }
  if (roberta && padding_token != kHfPaddingRows - 1) {
    in->refuse("pad_token_id is not 1, behind whose row positions begin in the models known here");
  }
  if (roberta != (m.token_types == 1) && !in->error()) {
    in->lacks(roberta ? "segments of a RoBERTa" : "a table of one segment in a BERT");
  }
  for (const char* key : {"directionality", "pooler_fc_size", "pooler_num_attention_heads",
                          "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"}) {
    in->ignore(key);  // of what predicts the next sentence, which is left out
  }
}
void describe_bert(HfKeys& keys, ModelSpec& m) { describe_encoder(keys, m, false); }
void describe_roberta(HfKeys& keys, ModelSpec& m) { describe_encoder(keys, m, true); }

// Where the tensors of blocks are, in most families and in BERT.
constexpr std::string_view kModel = "model.layers.#.", kEncoder = "bert.encoder.layer.#.";

}  // namespace

const std::vector<HfFamily>& hf_families() {
  static const std::vector<std::string_view> of_bert = {"cls.predictions.decoder.", "bert.pooler.",
                                                        "cls.seq_relationship.",
                                                        "bert.embeddings.position_ids"};
  static const std::vector<std::string_view> of_roberta = {"lm_head.decoder.", "roberta.pooler.",
                                                           "roberta.embeddings.position_ids"};
  static const std::vector<HfFamily> families = [] {
    std::vector<HfFamily> rows = {
        {"llama", "LlamaForCausalLM", describe_llama, kModel, {kLlamaNames}},
        {"mistral", "MistralForCausalLM", describe_mistral, kModel, {kLlamaNames}},
        {"mixtral", "MixtralForCausalLM", describe_mixtral, kModel, {kMixtralNames, kLlamaNames}},
        {"qwen2", "Qwen2ForCausalLM", describe_qwen2, kModel, {kLlamaNames}},
        {"qwen2_moe", "Qwen2MoeForCausalLM", describe_qwen2_moe},
        {"qwen3", "Qwen3ForCausalLM", describe_qwen3, kModel, {kLlamaNames}},
        {"qwen3_moe",
         "Qwen3MoeForCausalLM",
         describe_qwen3_moe,
         kModel,
         {kQwenExpertNames, kLlamaNames}},
        {"phi3", "Phi3ForCausalLM", describe_phi3, kModel, {kFusedNames, kLlamaNames}},
        {"gpt2",
         "GPT2LMHeadModel",
         describe_gpt2,
         "transformer.h.#.",
         {kGpt2Names},
         {".attn.bias", ".attn.masked_bias"},
         Activation::Gelu},
        {"gpt_neox",
         "GPTNeoXForCausalLM",
         describe_gpt_neox,
         "gpt_neox.layers.#.",
         {kNeoxNames},
         {".attention.bias", ".attention.masked_bias", ".attention.rotary_emb.inv_freq"}},
        {"bert", "BertForMaskedLM", describe_bert, kEncoder, {kBertNames, kEncoderNames}, of_bert},
        {"roberta",
         "RobertaForMaskedLM",
         describe_roberta,
         "roberta.encoder.layer.#.",
         {kRobertaNames, kEncoderNames},
         of_roberta},
        {"xlm-roberta", "XLMRobertaForMaskedLM", describe_roberta},
        {"gemma", "GemmaForCausalLM", describe_gemma, kModel, {kGemmaNorms, kLlamaNames}},
        {"gemma2", "Gemma2ForCausalLM", describe_gemma2, kModel, {kGemma2Norms, kLlamaNames}},
        {"gemma3_text", "Gemma3ForCausalLM", describe_gemma3, kModel, {kGemma2Norms, kLlamaNames}},
        {"arcee", "ArceeForCausalLM", describe_arcee, kModel, {kLlamaNames}},
        {"granite", "GraniteForCausalLM", describe_granite, kModel, {kLlamaNames}},
        {"opt", "OPTForCausalLM", describe_opt, "model.decoder.layers.#.", {kOptNames}},
        {"starcoder2",
         "Starcoder2ForCausalLM",
         describe_starcoder2,
         kModel,
         {kStarcoderNames, kLlamaNames}},
        {"stablelm", "StableLmForCausalLM", describe_stablelm, kModel, {kLlamaNames}},
        {"nemotron",
         "NemotronForCausalLM",
         describe_nemotron,
         kModel,
         {kNemotronNorms, kLlamaNames}},
    };
    const std::vector<HfFamily> simulated = simulated_hf_families();
    rows.insert(rows.end(), simulated.begin(), simulated.end());
    return rows;
  }();
  return families;
}

const HfFamily* find_hf_family(std::string_view type) {
  const auto& families = hf_families();
  const auto found = std::find_if(families.begin(), families.end(),
                                  [&](const HfFamily& family) { return family.type == type; });
  return found == families.end() ? nullptr : &*found;
}

}  // namespace lockstep
