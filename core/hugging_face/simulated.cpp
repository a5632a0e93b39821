#include "core/hugging_face/simulated.hpp"

#include <array>
#include <string>

#include "core/hugging_face/describe.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// These are only read: no family of them is written.

/// How DeepSeek-V2 and V3 choose experts: what is theirs alone is named, because it changes what a
/// training learns, and takes next to no time.
void read_deepseek_router(HfMembers& in, ModelSpec& m, bool third) {
  m.router_score = in.text("scoring_func", third ? "sigmoid" : "softmax") == "sigmoid"
                       ? RouterScore::Sigmoid
                       : RouterScore::Softmax;
  if (m.experts_per_token > 1) in.only("norm_topk_prob", true, third);
  const double scale = in.number("routed_scaling_factor", third ? 2.5 : 1.0);
  if (scale != 1) in.lacks("routed_scaling_factor = " + Json(scale).dump());
  const std::string method = in.text("topk_method", third ? "noaux_tc" : "greedy");
  const std::int64_t groups = in.integer("n_group", third ? 8 : 1);
  in.integer("topk_group", 1);
  if (groups > 1 && method != "greedy") {
    in.lacks("a choice of experts by groups (n_group = " + std::to_string(groups) + ")");
  }
  if (method == "noaux_tc") {
    in.warn(
        "topk_method = noaux_tc: how fast experts' biases move is said nowhere; set "
        "model.router_bias_update_rate (DeepSeek-V3: 0.001) to balance the experts");
  }
  if (const double loss = in.number("aux_loss_alpha", 0); loss > 0) {
    in.warn("aux_loss_alpha = " + Json(loss).dump() +
            " is not applied; set model.router_aux_loss_coef to balance the experts" +
            (in.boolean("seq_aux", true) ? ", of a microbatch and not of each sequence (seq_aux)"
                                         : ""));
  }
  in.boolean("seq_aux", true);
  warn_of_room(in);
}

/// DeepSeek-V2 and V3: latent attention, and experts behind some dense blocks. Which rotated
/// elements make a pair (rope_interleave) is an order of weights' rows, and changes no number.
void describe_deepseek(HfKeys& keys, ModelSpec& m, bool third) {
  describe_llama_like(keys, m, {});
  HfMembers& in = *keys.reading();
  for (const char* biases : {"attention_bias", "mlp_bias"}) in.only(biases, false, false);
  m.latent.kv_lora_rank = in.integer("kv_lora_rank", 512);
  m.latent.q_lora_rank = in.integer("q_lora_rank", in.has("q_lora_rank") ? 0 : 1536);
  m.latent.qk_nope_head_dim = in.integer("qk_nope_head_dim", 128);
  m.latent.qk_rope_head_dim = in.integer("qk_rope_head_dim", 64);
  m.latent.v_head_dim = in.integer("v_head_dim", 128);
  m.head_dim = m.latent.qk_head_dim();
  for (const char* same : {"qk_head_dim", "rope_interleave", "ep_size"}) in.ignore(same);
  if (m.kv_heads != m.heads) {
    in.refuse("num_key_value_heads = " + std::to_string(m.kv_heads) +
              " is not num_attention_heads, of each of which latent attention makes keys");
  }
  if (const std::int64_t more = in.integer("num_nextn_predict_layers", 0); more > 0) {
    in.warn("num_nextn_predict_layers = " + std::to_string(more) +
            " is not built: the modules that predict further tokens are left out");
  }
  m.experts = in.integer("n_routed_experts", third ? 256 : 64);
  if (m.experts == 0) return;
  m.experts_per_token = in.integer("num_experts_per_tok", third ? 8 : 6);
  m.dense_ffn_hidden = m.ffn_hidden;
  m.ffn_hidden = in.integer("moe_intermediate_size", third ? 2048 : 1407);
  const std::int64_t shared = in.integer("n_shared_experts", third ? 1 : 2);
  const bool in_range = shared < (1 << 20) && m.ffn_hidden < (std::int64_t{1} << 40);
  m.shared_expert_hidden = in_range ? shared * m.ffn_hidden : -1;  // validate() reports it
  m.dense_layers = in.integer("first_k_dense_replace", third ? 3 : 0);
  if (in.integer("moe_layer_freq", 1) != 1) {
    in.refuse(
        "moe_layer_freq other than 1 is not supported: DeepSeek counts blocks from the first");
  }
  read_deepseek_router(in, m, third);
}
void describe_deepseek_v2(HfKeys& keys, ModelSpec& m) { describe_deepseek(keys, m, false); }
void describe_deepseek_v3(HfKeys& keys, ModelSpec& m) { describe_deepseek(keys, m, true); }

constexpr const char* kNormsOverHeads = "norms of queries and keys over all heads together";

void describe_olmo(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m, {});
  HfMembers& in = *keys.reading();
  in.only("attention_bias", false, false);
  in.lacks("LayerNorm without weights in place of RMS norms");
  if (in.number("clip_qkv", 0) != 0) in.lacks("clip_qkv");
}

void describe_olmo2(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m, {});
  HfMembers& in = *keys.reading();
  in.only("attention_bias", false, false);
  m.qk_norm = true;
  m.norm_place = NormPlace::BehindBranch;
  in.lacks(kNormsOverHeads);
}

/// OLMo 3: an OLMo 2 with windows in three of four blocks.
void describe_olmo3(HfKeys& keys, ModelSpec& m) {
  describe_olmo2(keys, m);
  describe_window(keys, m, 4096);
  describe_window_period(keys, m, 4);
}

void describe_olmoe(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m, {.eps_value = 1e-5});
  HfMembers& in = *keys.reading();
  in.only("attention_bias", false, false);
  if (in.number("clip_qkv", 0) != 0) in.lacks("clip_qkv");
  m.qk_norm = true;
  in.lacks(kNormsOverHeads);
  m.experts = in.integer("num_experts", 64);
  m.experts_per_token = in.integer("num_experts_per_tok", 8);
  in.only("norm_topk_prob", true, false);
  in.boolean("output_router_logits", false);
  if (const double loss = in.number("router_aux_loss_coef", 0.01); loss != 0) {
    warn_of_unused_balance(in, loss);
  }
}

/// Llamas whose tensors have other names or orders.
void describe_other_llama(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m, {});
  HfMembers& in = *keys.reading();
  for (const char* biases : {"bias", "attention_bias", "mlp_bias"}) in.only(biases, false, false);
}

/// Baichuan: of 7B a Llama whose queries, keys and values are one tensor; of 13B with ALiBi.
void describe_baichuan(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m, {});
  HfMembers& in = *keys.reading();
  m.max_seq_len = in.integer("model_max_length", m.max_seq_len);
  in.ignore("z_loss_weight");
  if (m.hidden == 5120) {
    m.positions = Positions::None;
    in.lacks("ALiBi, biases of scores by distance");
  }
}

/// SmolLM3: a Llama of which every fourth block has no positions.
void describe_smollm3(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m, {.rope_theta = 2000000.0});
  HfMembers& in = *keys.reading();
  for (const char* biases : {"attention_bias", "mlp_bias"}) in.only(biases, false, false);
  in.boolean("use_sliding_window", false);
  in.integer("no_rope_layer_interval", 4);
  in.list("no_rope_layers");
  in.list("layer_types");
  in.lacks("blocks without positions (no_rope_layers)");
}

/// EXAONE 4: norms behind branches, of queries and keys, and windows in three of four blocks.
void describe_exaone4(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m, {.eps_value = 1e-5});
  HfMembers& in = *keys.reading();
  m.qk_norm = true;
  m.norm_place = NormPlace::BehindBranch;
  describe_window(keys, m, 4096);
  if (m.sliding_window > 0) {
    in.ignore("sliding_window_pattern");
    describe_window_period(keys, m, 4);
    in.lacks("blocks without a window that have no positions");
  }
}

/// GLM-4: norms around branches, of whose heads a half is rotated in pairs of neighbours, which is
/// an order of weights' rows.
void describe_glm4(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m, {.eps_value = 1.5625e-7});
  HfMembers& in = *keys.reading();
  describe_rotary_share(keys, m, "partial_rotary_factor", 0.5);
  m.qkv_bias = in.boolean("attention_bias", false);
  m.norm_place = NormPlace::Around;
}

/// Phi 1, 1.5 and 2: a GPT-2 with parallel branches behind one norm.
void describe_phi(HfKeys& keys, ModelSpec& m) {
  BlockParts parts = kGpt2Parts;
  parts.positions = Positions::Rotary;
  describe_llama_like(
      keys, m,
      {.activation_name = "gelu_new", .parts = parts, .eps = "layer_norm_eps", .eps_value = 1e-5});
  HfMembers& in = *keys.reading();
  describe_rotary_share(keys, m, "partial_rotary_factor", 0.5);
  m.parallel_branches = m.shared_norm = true;
  in.lacks("a bias of the output layer");
  in.only("qk_layernorm", false, false);
  in.dropout("embd_pdrop", 0, "embedding_dropout");
  in.dropout("resid_pdrop", 0, "residual_dropout");
}

/// Cohere's Command R: parallel branches behind one norm, logits with a factor.
void describe_cohere(HfKeys& keys, ModelSpec& m) {
  BlockParts parts = kLlamaParts;
  parts.norm = NormKind::LayerNorm;
  describe_llama_like(
      keys, m,
      {.sizes = {.tied = true}, .parts = parts, .eps = "layer_norm_eps", .eps_value = 1e-5});
  HfMembers& in = *keys.reading();
  m.parallel_branches = m.shared_norm = true;
  m.logit_multiplier = in.number("logit_scale", 0.0625);
  in.only("attention_bias", false, false);
  if (in.boolean("use_qk_norm", false)) in.lacks("use_qk_norm");
  in.lacks("LayerNorm without biases");
}

/// Falcon 7B, 40B and 180B: parallel branches behind one norm, or each behind its own.
void describe_falcon(HfKeys& keys, ModelSpec& m) {
  HfMembers& in = *keys.reading();
  const bool alibi = in.boolean("alibi", false), biases = in.boolean("bias", false);
  set_parts(
      m, Architecture::Gpt2,
      {NormKind::LayerNorm, Activation::Gelu, alibi ? Positions::None : Positions::Rotary, biases});
  m.layers = in.integer("num_hidden_layers", 32);
  m.hidden = in.integer("hidden_size", 4544);
  m.heads = in.integer("num_attention_heads", 71);
  set_equal_heads(m);
  const bool newer = in.boolean("new_decoder_architecture", false);
  const bool one = in.boolean("multi_query", true);
  const std::int64_t groups = in.integer("num_kv_heads", m.heads);
  m.kv_heads = newer ? groups : one ? 1 : m.heads;
  m.ffn_hidden =
      in.integer("ffn_hidden_size", m.hidden < (std::int64_t{1} << 40) ? 4 * m.hidden : 0);
  m.vocab = in.integer("vocab_size", 65024);
  m.max_seq_len = in.integer("max_position_embeddings", 2048);
  m.tied_embeddings = in.boolean("tie_word_embeddings", true);
  m.norm_eps = in.number("layer_norm_epsilon", 1e-5);
  describe_rope(keys, m);
  m.parallel_branches = newer || in.boolean("parallel_attn", true);
  m.shared_norm = m.parallel_branches && !newer;
  if (newer) {
    const bool two = in.integer("num_ln_in_parallel_attn", 2) == 2;
    m.shared_norm = !two;
  }
  describe_activation(keys, m, "activation", "gelu");
  if (alibi) in.lacks("ALiBi, biases of scores by distance");
  in.dropout("attention_dropout", 0, "attention_dropout");
  in.dropout("hidden_dropout", 0, "residual_dropout");
  in.ignore("apply_residual_connection_post_layernorm");
}

/// StarCoder 1 and SantaCoder: a GPT-2 of which all heads share keys and values.
void describe_gpt_bigcode(HfKeys& keys, ModelSpec& m) {
  find_hf_family("gpt2")->describe(keys, m);
  HfMembers& in = *keys.reading();
  if (in.boolean("multi_query", true)) m.kv_heads = 1;
  for (const char* key : {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
                          "inference_runner", "validate_runner_input", "pre_allocate_kv_cache",
                          "max_batch_size", "max_sequence_length"}) {
    in.ignore(key);
  }
}

/// BLOOM: a GPT-2 with ALiBi and a norm behind the embeddings.
void describe_bloom(HfKeys& keys, ModelSpec& m) {
  HfMembers& in = *keys.reading();
  BlockParts parts = kGpt2Parts;
  parts.positions = Positions::None;
  set_parts(m, Architecture::Gpt2, parts);
  m.layers = in.integer("n_layer", in.integer("num_hidden_layers", 2));
  m.hidden = in.integer("hidden_size", in.integer("n_embed", 64));
  m.heads = in.integer("n_head", in.integer("num_attention_heads", 8));
  set_equal_heads(m);
  m.ffn_hidden = m.hidden < (std::int64_t{1} << 40) ? 4 * m.hidden : 0;
  m.vocab = in.integer("vocab_size", 250880);
  m.tied_embeddings = in.boolean("tie_word_embeddings", true);
  m.norm_eps = in.number("layer_norm_epsilon", 1e-5);
  m.embedding_norm = true;
  in.lacks("ALiBi, biases of scores by distance");
  in.dropout("attention_dropout", 0, "attention_dropout");
  in.dropout("hidden_dropout", 0, "residual_dropout");
  for (const char* key : {"masked_softmax_fusion", "bias_dropout_fusion", "offset_alibi",
                          "seq_length", "unk_token_id", "n_inner", "skip_bias_add",
                          "skip_bias_add_qkv", "attention_softmax_in_fp32", "slow_but_exact",
                          "apply_residual_connection_post_layernorm", "hidden_dropout_prob"}) {
    in.ignore(key);
  }
}

/// MPT: a GPT-2 without biases, with ALiBi.
void describe_mpt(HfKeys& keys, ModelSpec& m) {
  HfMembers& in = *keys.reading();
  set_parts(m, Architecture::Gpt2,
            {NormKind::LayerNorm, Activation::Gelu, Positions::None, !in.boolean("no_bias", true)});
  m.layers = in.integer("n_layers", 24);
  m.hidden = in.integer("d_model", 2048);
  m.heads = in.integer("n_heads", 16);
  set_equal_heads(m);
  const std::int64_t ratio = in.integer("expansion_ratio", 4);
  const bool in_range = m.hidden < (std::int64_t{1} << 40) && ratio < (1 << 20);
  m.ffn_hidden = in_range ? ratio * m.hidden : 0;
  m.vocab = in.integer("vocab_size", 50368);
  m.max_seq_len = in.integer("max_seq_len", 2048);
  m.tied_embeddings = in.boolean("tie_word_embeddings", true);
  in.lacks("ALiBi, biases of scores by distance");
  in.lacks("LayerNorm without biases");
  if (const Json* given = in.object("attn_config")) {
    HfMembers attention(*given, "attn_config");
    m.kv_heads = attention.integer("kv_n_heads", m.heads);
    if (attention.number("clip_qkv", 0) != 0) in.lacks("clip_qkv");
  }
  in.dropout("resid_pdrop", 0, "residual_dropout");
  in.dropout("emb_pdrop", 0, "embedding_dropout");
  for (const char* key :
       {"ffn_config", "init_config", "init_device", "learned_pos_emb", "logit_scale", "norm_type",
        "verbose", "embedding_fraction", "use_pad_tok_in_ffn", "layer_norm_epsilon"}) {
    in.ignore(key);
  }
}

/// gpt-oss: experts in every block, a learned logit in every softmax, windows in every other block.
void describe_gpt_oss(HfKeys& keys, ModelSpec& m) {
  describe_llama_like(keys, m,
                      {.sizes = {.head_dim = 64}, .rope_theta = 150000.0, .eps_value = 1e-5});
  HfMembers& in = *keys.reading();
  m.qkv_bias = in.boolean("attention_bias", true);
  describe_window(keys, m, 128);
  describe_window_period(keys, m, 2);
  m.experts = in.integer("num_local_experts", 128);
  m.experts_per_token = in.integer("num_experts_per_tok", 4);
  in.integer("experts_per_token", 4);
  in.lacks("a learned logit in every softmax (sinks)");
  in.lacks("clamped SwiGLU and biases of experts");
  for (const char* key : {"initial_context_length", "swiglu_limit", "router_aux_loss_coef",
                          "output_router_logits", "quantization_config"}) {
    in.ignore(key);
  }
}

/// DBRX: a mixture of experts with LayerNorm.
void describe_dbrx(HfKeys& keys, ModelSpec& m) {
  HfMembers& in = *keys.reading();
  BlockParts parts = kLlamaParts;
  parts.norm = NormKind::LayerNorm;
  set_parts(m, Architecture::Llama, parts);
  m.layers = in.integer("n_layers", 10);
  m.hidden = in.integer("d_model", 2048);
  m.heads = in.integer("n_heads", 16);
  set_equal_heads(m);
  m.vocab = in.integer("vocab_size", 32000);
  m.max_seq_len = in.integer("max_seq_len", 2048);
  m.tied_embeddings = in.boolean("tie_word_embeddings", false);
  if (const Json* given = in.object("attn_config")) {
    HfMembers attention(*given, "attn_config");
    m.kv_heads = attention.integer("kv_n_heads", m.heads);
    m.rope_theta = attention.number("rope_theta", 10000.0);
    if (attention.number("clip_qkv", 0) != 0) in.lacks("clip_qkv");
  }
  if (const Json* given = in.object("ffn_config")) {
    HfMembers network(*given, "ffn_config");
    m.ffn_hidden = network.integer("ffn_hidden_size", 3584);
    m.experts = network.integer("moe_num_experts", 4);
    m.experts_per_token = network.integer("moe_top_k", 1);
    if (network.error()) in.fail(network.error()->message);
  } else {
    in.refuse("ffn_config is missing, which says the experts");
  }
  in.lacks("LayerNorm without biases");
  in.dropout("resid_pdrop", 0, "residual_dropout");
  in.dropout("emb_pdrop", 0, "embedding_dropout");
  in.ignore("output_router_logits");
  in.ignore("router_aux_loss_coef");
}

/// DistilBERT: a BERT without segments.
void describe_distilbert(HfKeys& keys, ModelSpec& m) {
  HfMembers& in = *keys.reading();
  m.architecture = Architecture::Gpt2;
  m.norm_place = NormPlace::BehindSum;
  m.embedding_norm = m.head_transform = true;
  m.causal = false;
  m.layers = in.integer("n_layers", 6);
  m.hidden = in.integer("dim", 768);
  m.heads = in.integer("n_heads", 12);
  set_equal_heads(m);
  m.ffn_hidden = in.integer("hidden_dim", 3072);
  m.vocab = in.integer("vocab_size", 30522);
  m.max_seq_len = in.integer("max_position_embeddings", 512);
  m.tied_embeddings = true;
  m.norm_eps = 1e-12;
  if (m.vocab == 30522 || m.vocab == 28996) m.mask_token = 103;
  describe_activation(keys, m, "activation", "gelu");
  in.dropout("attention_dropout", 0.1, "attention_dropout");
  in.dropout("dropout", 0.1, "residual_dropout");
  for (const char* key :
       {"qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_"}) {
    in.ignore(key);
  }
}

void describe_vit(HfKeys& keys, ModelSpec& m) {
  HfMembers& in = *keys.reading();
  m.architecture = Architecture::Vit;
  describe_base_sizes(keys, m, "intermediate_size");
  m.image_size = in.integer("image_size", 224);
  m.patch_size = in.integer("patch_size", 16);
  m.norm_eps = in.number("layer_norm_eps", 1e-12);
  if (const Json* labels = in.object("id2label")) {
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

}  // namespace

std::vector<HfFamily> simulated_hf_families() {
  return {
      {"deepseek_v2", "DeepseekV2ForCausalLM", describe_deepseek_v2},
      {"deepseek_v3", "DeepseekV3ForCausalLM", describe_deepseek_v3},
      {"olmo", "OlmoForCausalLM", describe_olmo},
      {"olmo2", "Olmo2ForCausalLM", describe_olmo2},
      {"olmo3", "Olmo3ForCausalLM", describe_olmo3},
      {"olmoe", "OlmoeForCausalLM", describe_olmoe},
      {"internlm2", "InternLM2ForCausalLM", describe_other_llama},
      {"internlm3", "InternLM3ForCausalLM", describe_other_llama},
      {"baichuan", "BaichuanForCausalLM", describe_baichuan},
      {"smollm3", "SmolLM3ForCausalLM", describe_smollm3},
      {"exaone4", "Exaone4ForCausalLM", describe_exaone4},
      {"glm4", "Glm4ForCausalLM", describe_glm4},
      {"phi", "PhiForCausalLM", describe_phi},
      {"cohere", "CohereForCausalLM", describe_cohere},
      {"falcon", "FalconForCausalLM", describe_falcon},
      {"gpt_bigcode", "GPTBigCodeForCausalLM", describe_gpt_bigcode},
      {"bloom", "BloomForCausalLM", describe_bloom},
      {"mpt", "MptForCausalLM", describe_mpt},
      {"gpt_oss", "GptOssForCausalLM", describe_gpt_oss},
      {"dbrx", "DbrxForCausalLM", describe_dbrx},
      {"distilbert", "DistilBertForMaskedLM", describe_distilbert},
      {"vit", "ViTForImageClassification", describe_vit},
  };
}

}  // namespace lockstep
