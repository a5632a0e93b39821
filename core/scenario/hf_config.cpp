// Every key of a config.json that changes numbers is either used or named in a warning or an error.
// The meaning of keys, and what is assumed where one is missing, are those of transformers'
// configuration classes.
#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json_depth.hpp"
#include "core/base/read_file.hpp"
#include "core/scenario/hf_members.hpp"
#include "core/scenario/hf_readers.hpp"
#include "core/scenario/presets.hpp"
#include "core/spec/roberta.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;
using Members = HfMembers;

/// Rotary positions. transformers 5 keeps their base in "rope_parameters", with what scales them;
/// transformers 4 has the latter in "rope_scaling".
void read_rope(Members& in, ModelSpec& m) {
  m.rope_theta = in.number("rope_theta", 10000.0);
  if (const double part = in.number("partial_rotary_factor", 1); part != 1) {
    in.lacks("partial_rotary_factor = " + Json(part).dump());
  }
  const Json* const parameters = in.object("rope_parameters");
  const Json* const scaling = in.object("rope_scaling");
  const Json* const given = parameters != nullptr ? parameters : scaling;
  if (given == nullptr) return;
  Members rope(*given, "rope");
  m.rope_theta = rope.number("rope_theta", m.rope_theta);
  std::string type = rope.text("rope_type", "");
  if (type.empty()) type = rope.text("type", "default");
  if (type == "linear" || type == "llama3") {
    m.rope_scaling.factor = rope.number("factor", 1);
    if (type == "llama3") {
      m.rope_scaling.original_length = rope.integer("original_max_position_embeddings", 8192);
      m.rope_scaling.low_freq_factor = rope.number("low_freq_factor", 1);
      m.rope_scaling.high_freq_factor = rope.number("high_freq_factor", 4);
    }
  } else if (type != "default") {
    in.lacks("rope scaling of type '" + type + "'");
  }
  if (rope.error()) in.fail(rope.error()->message);
}

/// The width of a head where a file does not say it. Without heads, which is refused later, 0.
std::int64_t usual_head_dim(const ModelSpec& m) { return m.heads > 0 ? m.hidden / m.heads : 0; }

}  // namespace

void read_base_sizes(Members& in, ModelSpec& m, const char* ffn) {
  m.layers = in.integer("num_hidden_layers", 12);
  m.hidden = in.integer("hidden_size", 768);
  m.heads = m.kv_heads = in.integer("num_attention_heads", 12);
  m.head_dim = usual_head_dim(m);
  m.ffn_hidden = in.integer(ffn, 3072);
}

void read_llama(Members& in, ModelSpec& m, const LlamaDefaults& defaults) {
  m.architecture = Architecture::Llama;
  m.layers = in.integer("num_hidden_layers");
  m.hidden = in.integer("hidden_size");
  m.heads = in.integer("num_attention_heads");
  m.kv_heads = in.integer("num_key_value_heads", m.heads);
  m.head_dim =
      in.integer("head_dim", defaults.head_dim > 0 ? defaults.head_dim : usual_head_dim(m));
  m.ffn_hidden = in.integer("intermediate_size");
  m.vocab = in.integer("vocab_size");
  m.max_seq_len = in.integer("max_position_embeddings", 0);
  m.tied_embeddings = in.boolean("tie_word_embeddings", defaults.tied);
  m.norm_eps = in.number("rms_norm_eps", 1e-6);
  read_rope(in, m);
  if (const std::string act = in.text(defaults.activation, "silu"); act != "silu") {
    in.lacks(std::string(defaults.activation) + " '" + act + "'");
  }
  if (in.boolean("attention_bias", false)) in.lacks("attention_bias");
  if (in.boolean("mlp_bias", false)) in.lacks("mlp_bias");
  in.dropout("attention_dropout", 0, "attention_dropout");
}

namespace {

/// Mixtures of experts: the loss that balances them, and what else training does with them.
void read_experts(Members& in, ModelSpec& m, const char* experts, std::int64_t chosen) {
  m.experts = in.integer(experts);
  m.experts_per_token = in.integer("num_experts_per_tok", chosen);
  const double balance = in.number("router_aux_loss_coef", 0);
  if (in.boolean("output_router_logits", false)) {
    m.router_aux_loss_coef = balance;
    if (balance > 0) {
      in.warn(
          "router_aux_loss_coef is applied to every layer by itself, where transformers takes "
          "all layers together");
    }
  } else if (balance > 0) {
    in.warn("router_aux_loss_coef = " + Json(balance).dump() +
            " has no effect without output_router_logits, as in transformers; set "
            "model.router_aux_loss_coef to balance the experts");
  }
  if (in.number("router_jitter_noise", 0) != 0) in.warn("router_jitter_noise is not applied");
  in.warn(
      "no token is dropped in transformers; here an expert has room for model.capacity_factor = "
      "1.25 times its even share: 0 drops none");
}

void read_qwen_experts(Members& in, ModelSpec& m, std::int64_t chosen) {
  read_experts(in, m, "num_experts", chosen);
  m.ffn_hidden = in.integer("moe_intermediate_size");
  in.only("norm_topk_prob", true, false);
  if (in.integer("decoder_sparse_step", 1) != 1 || in.has_elements("mlp_only_layers")) {
    in.refuse(
        "decoder_sparse_step other than 1 and mlp_only_layers are not supported: blocks without "
        "experts would be of another width");
  }
}

/// How DeepSeek-V2 and V3 choose experts: what is theirs alone is named, because it changes what a
/// training learns, and takes next to no time.
void read_deepseek_router(Members& in, ModelSpec& m, bool third) {
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
  in.warn(
      "no token is dropped in transformers; here an expert has room for model.capacity_factor = "
      "1.25 times its even share: 0 drops none");
}

/// DeepSeek-V2 and V3: latent attention, and experts behind some dense blocks. Which rotated
/// elements make a pair (rope_interleave) is an order of weights' rows, and changes no number.
void read_deepseek(Members& in, ModelSpec& m, bool third) {
  read_llama(in, m);
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

void read_phi3(Members& in, ModelSpec& m) {
  m.fused_names = true;
  in.integer("original_max_position_embeddings", 0);  // of rope scaling
  in.dropout("embd_pdrop", 0, "embedding_dropout");
  in.dropout("resid_pdrop", 0, "residual_dropout");
}

/// Gemma 1 to 3, of which the products and the attention are those of a Llama. What differs are
/// operations on single elements, norms, and which tokens some layers see.
void read_gemma(Members& in, ModelSpec& m, const std::string& type) {
  read_llama(in, m, {.head_dim = 256, .tied = true, .activation = "hidden_activation"});
  in.text("hidden_act", "");  // of the first files; hidden_activation counts
  in.lacks("norms that add 1 to their weights");
  in.lacks("embeddings times the root of hidden_size");
  if (type == "gemma") return;
  in.lacks("norms behind attention and MLP");
  if (in.number("query_pre_attn_scalar", 256) != static_cast<double>(m.head_dim)) {
    in.lacks("query_pre_attn_scalar");
  }
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (in.number(key, 0) != 0) in.lacks(key);
  }
  if (type == "gemma3_text") {
    m.qk_norm = true;
    in.number("rope_local_base_freq", 10000);
    in.lacks("rope_local_base_freq");
  }
  in.integer("sliding_window_pattern", 0);
  in.has_elements("layer_types");
  if (const std::int64_t window = in.integer("sliding_window", 0); window > 0) {
    in.warn("sliding_window = " + std::to_string(window) +
            ", which some layers have, is not simulated: every layer sees all tokens");
  }
}

/// GPT-NeoX and Pythia: a GPT-2 whose positions are rotated.
void read_gpt_neox(Members& in, ModelSpec& m) {
  m.architecture = Architecture::Gpt2;
  m.layers = in.integer("num_hidden_layers");
  m.hidden = in.integer("hidden_size");
  m.heads = m.kv_heads = in.integer("num_attention_heads");
  m.head_dim = usual_head_dim(m);
  m.ffn_hidden = in.integer("intermediate_size");
  m.vocab = in.integer("vocab_size");
  m.max_seq_len = in.integer("max_position_embeddings", 2048);
  m.tied_embeddings = in.boolean("tie_word_embeddings", false);
  m.norm_eps = in.number("layer_norm_eps", 1e-5);
  in.number("rotary_pct", 0.25);
  in.number("rotary_emb_base", 10000);
  in.lacks(
      "rotary positions, in place of which a table of max_position_embeddings rows is simulated");
  if (const std::string act = in.text("hidden_act", "gelu"); act != "gelu_new") {
    in.lacks("hidden_act '" + act + "'");
  }
  if (in.boolean("use_parallel_residual", true)) {
    in.lacks(
        "use_parallel_residual, in place of which attention and MLP are simulated one after the "
        "other, each with its communication");
  }
  in.only("attention_bias", true, true);
  in.dropout("attention_dropout", 0, "attention_dropout");
  in.dropout("hidden_dropout", 0, "residual_dropout");
  in.number("classifier_dropout", 0);
}

void read_gpt2(Members& in, ModelSpec& m) {
  m.architecture = Architecture::Gpt2;
  m.layers = in.integer("n_layer");
  m.hidden = in.integer("n_embd");
  m.heads = m.kv_heads = in.integer("n_head");
  m.head_dim = usual_head_dim(m);
  m.ffn_hidden = in.integer("n_inner", m.hidden < (std::int64_t{1} << 40) ? 4 * m.hidden : 0);
  m.vocab = in.integer("vocab_size");
  m.max_seq_len = in.integer("n_positions");
  m.tied_embeddings = in.boolean("tie_word_embeddings", true);
  m.norm_eps = in.number("layer_norm_epsilon", 1e-5);
  const std::string act = in.text("activation_function", "gelu_new");
  if (act != "gelu_new" && act != "gelu_pytorch_tanh") {
    in.lacks("activation_function '" + act + "'");
  }
  in.only("scale_attn_weights", true, true);
  in.only("scale_attn_by_inverse_layer_idx", false, false);
  if (in.boolean("add_cross_attention", false)) {
    in.refuse("add_cross_attention = true is not supported: its layers are not built");
  }
  in.dropout("attn_pdrop", 0.1, "attention_dropout");
  in.dropout("embd_pdrop", 0.1, "embedding_dropout");
  in.dropout("resid_pdrop", 0.1, "residual_dropout");
}

/// BERT, or RoBERTa and what has its classes under another name, with the head for masked tokens.
/// BERT's weights were trained with GELU's approximation by tanh (modeling.py of
/// google-research/bert), which transformers calls "gelu_new".
void read_bert(Members& in, ModelSpec& m, bool roberta) {
  m.architecture = Architecture::Gpt2;
  read_base_sizes(in, m, "intermediate_size");
  m.vocab = in.integer("vocab_size", roberta ? 50265 : 30522);
  m.max_seq_len = in.integer("max_position_embeddings", 512) - (roberta ? kRobertaPaddingRows : 0);
  m.token_types = in.integer("type_vocab_size", 2);
  m.norm_eps = in.number("layer_norm_eps", 1e-12);
  m.tied_embeddings = in.boolean("tie_word_embeddings", true);
  m.causal = in.boolean("is_decoder", false);
  if (m.causal || in.boolean("add_cross_attention", false)) {
    in.refuse("is_decoder and add_cross_attention are not supported: only the encoder is built");
  }
  m.post_norm = m.embedding_norm = m.head_transform = true;
  // The ids of [MASK] in the vocabularies that were published; of others, model.mask_token says it.
  if (m.vocab == 30522 || m.vocab == 28996) m.mask_token = 103;
  if (m.vocab == 50265 || m.vocab == 250002) m.mask_token = m.vocab - 1;
  m.mask_token = in.integer("mask_token_id", m.mask_token);
  const std::string act = in.text("hidden_act", "gelu");
  if (act == "gelu") {
    in.warn(
        "hidden_act 'gelu' is computed by its approximation with tanh ('gelu_new'), with which "
        "BERT was trained and which differs by less than 5e-4");
  } else if (act != "gelu_new" && act != "gelu_pytorch_tanh") {
    in.lacks("hidden_act '" + act + "'");
  }
  if (const std::string type = in.text("position_embedding_type", "absolute"); type != "absolute") {
    in.refuse("position_embedding_type '" + type + "' is not supported: a table is built");
  }
  if (roberta && in.integer("pad_token_id", kRobertaPaddingRows - 1) != kRobertaPaddingRows - 1) {
    in.refuse("pad_token_id is not 1, behind whose row positions begin in the models known here");
  }
  in.dropout("attention_probs_dropout_prob", 0.1, "attention_dropout");
  in.dropout("hidden_dropout_prob", 0.1, "residual_dropout");
  in.number("classifier_dropout", 0);
  for (const char* key : {"directionality", "pooler_fc_size", "pooler_num_attention_heads",
                          "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"}) {
    in.ignore(key);  // of what predicts the next sentence, which is left out
  }
}

constexpr auto kTypes = std::to_array<std::string_view>(
    {"llama",       "mistral", "mixtral", "qwen2",       "qwen2_moe",   "qwen3",
     "qwen3_moe",   "phi3",    "gpt2",    "gpt_neox",    "bert",        "roberta",
     "xlm-roberta", "gemma",   "gemma2",  "gemma3_text", "deepseek_v2", "deepseek_v3",
     "granite",     "olmo",    "olmo2",   "opt",         "vit"});

/// Model types that people have, and what they would need.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLacking = {{
    {"gemma3", "an encoder of images; its text model has the model_type gemma3_text"},
    {"clip", "two encoders whose outputs are compared; one of images alone has the model_type vit"},
    {"falcon", "keys and values that all heads of a GPT-2 share"},
}};

/// Why a model of this type cannot be read; empty if it can.
std::string why_not(const std::string& type) {
  const std::string refused = "model_type '" + type + "' is not supported";
  const auto lacking = std::find_if(kLacking.begin(), kLacking.end(),
                                    [&](const auto& known) { return known.first == type; });
  if (lacking != kLacking.end()) return refused + ": it needs " + std::string(lacking->second);
  if (std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end()) return "";
  std::string valid;
  for (const std::string_view known : kTypes) {
    valid += (valid.empty() ? "" : ", ") + std::string(known);
  }
  return refused + "; valid: " + valid;
}

}  // namespace

Result<HfModel> parse_hf_config(std::string_view json, const std::string& path) {
  const Json config =
      nests_too_deep(json) ? Json() : Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return Error{ErrorKind::Parse, path + " is not a JSON object", std::nullopt};
  }
  HfModel read;
  Members in(config, path);
  const std::string type = in.text("model_type", "");
  if (const std::string why = why_not(type); !why.empty()) {
    in.refuse(why);
  } else if (type == "gpt2") {
    read_gpt2(in, read.model);
  } else if (type == "gpt_neox") {
    read_gpt_neox(in, read.model);
  } else if (type == "bert" || type.ends_with("roberta")) {
    read_bert(in, read.model, type != "bert");
  } else if (type.starts_with("gemma")) {
    read_gemma(in, read.model, type);
  } else if (type == "granite") {
    read_granite(in, read.model);
  } else if (type.starts_with("olmo")) {
    read_olmo(in, read.model, type == "olmo2");
  } else if (type == "opt") {
    read_opt(in, read.model);
  } else if (type == "vit") {
    read_vit(in, read.model);
  } else if (type.starts_with("deepseek")) {
    read_deepseek(in, read.model, type == "deepseek_v3");
  } else {
    const bool qwen = type.starts_with("qwen");
    read.model.qk_norm = type.starts_with("qwen3");
    read.model.qkv_bias = type.starts_with("qwen2");
    read_llama(in, read.model, {.head_dim = read.model.qk_norm ? 128 : 0});
    if (type == "mixtral") read_experts(in, read.model, "num_local_experts", 2);
    if (type == "qwen3_moe") read_qwen_experts(in, read.model, 8);
    if (type == "qwen2_moe") {
      read_qwen_experts(in, read.model, 4);
      read.model.shared_expert_hidden = in.integer("shared_expert_intermediate_size", 5632);
      read.model.shared_expert_gate = true;
    }
    if (type == "phi3") read_phi3(in, read.model);
    const std::int64_t window = type == "llama" ? 0 : in.integer("sliding_window", 0);
    if (!qwen || in.boolean("use_sliding_window", false)) read.sliding_window = window;
    if (qwen) {
      in.integer("max_window_layers", 0);  // means something only with the window
      in.has_elements("layer_types");
    }
  }
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

}  // namespace lockstep
