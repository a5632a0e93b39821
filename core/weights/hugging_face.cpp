#include "core/weights/hugging_face.hpp"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/spec/roberta.hpp"

namespace lockstep {
namespace {

/// A tensor there by its name and its rows of a parameter here.
struct Rows {
  std::string name;
  std::int64_t rows = 0;  // of the parameter; 0: all
};

/// Tensors of rows that follow one another, each as wide as the parameter.
std::vector<HfTensor> stacked(const Parameter& parameter, const std::vector<Rows>& parts,
                              bool transposed = false) {
  const std::int64_t inner = parameter.elements() / parameter.shape[0];
  std::vector<HfTensor> tensors;
  std::int64_t begin = 0;
  for (const Rows& part : parts) {
    std::vector<std::int64_t> shape = parameter.shape;
    if (part.rows > 0) shape[0] = part.rows;
    if (transposed) std::swap(shape[0], shape[1]);
    tensors.push_back({part.name, std::move(shape), begin, transposed, 0});
    begin += part.rows * inner;
  }
  return tensors;
}

/// Splits "blocks.7.attn.wo" into the number and the rest; -1 and the whole for another layer.
std::pair<std::int64_t, std::string> place_of(const std::string& name) {
  const std::string prefix = "blocks.";
  if (!name.starts_with(prefix)) return {-1, name};
  const std::size_t dot = name.find('.', prefix.size());
  return {std::stoll(name.substr(prefix.size())), name.substr(dot + 1)};
}

struct Gpt2Name {
  const char* name;
  bool transposed = false;
};

std::vector<HfTensor> gpt2_tensors(const Parameter& parameter) {
  static const std::map<std::string, Gpt2Name> names = {
      {"embed.wte", {"wte.weight"}},         {"embed.wpe", {"wpe.weight"}},
      {"head.norm.weight", {"ln_f.weight"}}, {"head.norm.bias", {"ln_f.bias"}},
      {"head.lm_head", {"lm_head.weight"}},  {"ln1.weight", {"ln_1.weight"}},
      {"ln1.bias", {"ln_1.bias"}},           {"attn.wqkv", {"attn.c_attn.weight", true}},
      {"attn.bqkv", {"attn.c_attn.bias"}},   {"attn.wo", {"attn.c_proj.weight", true}},
      {"attn.bo", {"attn.c_proj.bias"}},     {"ln2.weight", {"ln_2.weight"}},
      {"ln2.bias", {"ln_2.bias"}},           {"mlp.wfc", {"mlp.c_fc.weight", true}},
      {"mlp.bfc", {"mlp.c_fc.bias"}},        {"mlp.wproj", {"mlp.c_proj.weight", true}},
      {"mlp.bproj", {"mlp.c_proj.bias"}},
  };
  const auto [block, rest] = place_of(parameter.name);
  const auto found = names.find(rest);
  if (found == names.end()) return {};
  const std::string layer = block < 0 ? "" : "h." + std::to_string(block) + ".";
  const std::string head = rest == "head.lm_head" ? "" : "transformer.";
  return stacked(parameter, {{head + layer + found->second.name, 0}}, found->second.transposed);
}

/// Whether an encoder is a RoBERTa: it has no segments, whose table has one row then.
bool is_roberta(const ModelSpec& spec) { return spec.is_encoder() && spec.token_types == 1; }

std::vector<HfTensor> bert_tensors(const ModelSpec& spec, const Parameter& parameter) {
  static const std::map<std::string, const char*> heads[2] = {
      {{"head.transform.weight", "cls.predictions.transform.dense.weight"},
       {"head.transform.bias", "cls.predictions.transform.dense.bias"},
       {"head.norm.weight", "cls.predictions.transform.LayerNorm.weight"},
       {"head.norm.bias", "cls.predictions.transform.LayerNorm.bias"},
       {"head.bias", "cls.predictions.bias"}},
      {{"head.transform.weight", "lm_head.dense.weight"},
       {"head.transform.bias", "lm_head.dense.bias"},
       {"head.norm.weight", "lm_head.layer_norm.weight"},
       {"head.norm.bias", "lm_head.layer_norm.bias"},
       {"head.bias", "lm_head.bias"}}};
  static const std::map<std::string, const char*> names = {
      {"embed.wte", "embeddings.word_embeddings.weight"},
      {"embed.wpe", "embeddings.position_embeddings.weight"},
      {"embed.wtt", "embeddings.token_type_embeddings.weight"},
      {"embed.norm.weight", "embeddings.LayerNorm.weight"},
      {"embed.norm.bias", "embeddings.LayerNorm.bias"},
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
  const bool roberta = is_roberta(spec);
  const auto [block, rest] = place_of(parameter.name);
  if (const auto found = heads[roberta].find(rest); found != heads[roberta].end()) {
    return stacked(parameter, {{found->second, 0}});
  }
  const std::string model = roberta ? "roberta." : "bert.";
  const std::string layer =
      model + (block < 0 ? "" : "encoder.layer." + std::to_string(block) + ".");
  if (const auto found = names.find(rest); found != names.end()) {
    std::vector<HfTensor> tensors = stacked(parameter, {{layer + found->second, 0}});
    if (roberta && rest == "embed.wpe") {
      tensors.front().shape[0] += kRobertaPaddingRows;
      tensors.front().skipped = kRobertaPaddingRows * spec.hidden;
    }
    return tensors;
  }
  if (rest != "attn.wqkv" && rest != "attn.bqkv") return {};
  const std::string kind = rest == "attn.wqkv" ? ".weight" : ".bias";
  const std::int64_t rows = spec.heads * spec.head_dim;
  return stacked(parameter, {{layer + "attention.self.query" + kind, rows},
                             {layer + "attention.self.key" + kind, rows},
                             {layer + "attention.self.value" + kind, rows}});
}

std::vector<HfTensor> llama_tensors(const ModelSpec& spec, const Parameter& parameter) {
  static const std::map<std::string, const char*> names = {
      {"embed.wte", "model.embed_tokens.weight"},
      {"head.norm.weight", "model.norm.weight"},
      {"head.lm_head", "lm_head.weight"},
      {"norm1.weight", "input_layernorm.weight"},
      {"norm2.weight", "post_attention_layernorm.weight"},
      {"attn.wo", "self_attn.o_proj.weight"},
      {"mlp.w2", "mlp.down_proj.weight"},
      {"attn.q_norm", "self_attn.q_norm.weight"},
      {"attn.k_norm", "self_attn.k_norm.weight"},
  };
  const auto [block, rest] = place_of(parameter.name);
  const std::string layer = block < 0 ? "" : "model.layers." + std::to_string(block) + ".";
  if (const auto found = names.find(rest); found != names.end()) {
    return stacked(parameter, {{layer + found->second, 0}});
  }
  if (spec.fused_names && rest == "attn.wqkv") {
    return stacked(parameter, {{layer + "self_attn.qkv_proj.weight", 0}});
  }
  if (spec.fused_names && rest == "mlp.w13") {
    return stacked(parameter, {{layer + "mlp.gate_up_proj.weight", 0}});
  }
  if (rest == "attn.wqkv" || rest == "attn.bqkv") {
    const std::string kind = rest == "attn.wqkv" ? "weight" : "bias";
    const std::int64_t keys = spec.kv_heads * spec.head_dim;
    return stacked(parameter, {{layer + "self_attn.q_proj." + kind, spec.heads * spec.head_dim},
                               {layer + "self_attn.k_proj." + kind, keys},
                               {layer + "self_attn.v_proj." + kind, keys}});
  }
  if (rest == "mlp.w13") {
    return stacked(parameter, {{layer + "mlp.gate_proj.weight", spec.ffn_hidden},
                               {layer + "mlp.up_proj.weight", spec.ffn_hidden}});
  }
  // Qwen's experts are named as dense networks are, Mixtral's by numbers. Those of a block are one
  // tensor [experts, rows, cols] here.
  const std::string moe = layer + (spec.qk_norm ? "mlp." : "block_sparse_moe.");
  if (rest == "moe.router") return stacked(parameter, {{moe + "gate.weight", 0}});
  std::vector<HfTensor> tensors;
  const bool up = rest == "moe.experts.w13";
  if (!up && rest != "moe.experts.w2") return {};
  const std::int64_t rows = up ? spec.ffn_hidden : spec.hidden;
  const std::int64_t cols = up ? spec.hidden : spec.ffn_hidden;
  for (std::int64_t e = 0; e < spec.experts; ++e) {
    const std::string expert = moe + "experts." + std::to_string(e) + ".";
    using Names = std::vector<const char*>;
    const Names names = spec.qk_norm ? up ? Names{"gate_proj", "up_proj"} : Names{"down_proj"}
                        : up ? Names{"w1", "w3"}
                                     : Names{"w2"};
    for (const char* name : names) {
      const auto begin = static_cast<std::int64_t>(tensors.size()) * rows * cols;
      tensors.push_back({expert + name + ".weight", {rows, cols}, begin, false, 0});
    }
  }
  return tensors;
}

Error no_layout(const ModelSpec& spec) {
  return {
      ErrorKind::Unsupported,
      "model '" + spec.name + "' has no layout in Hugging Face's transformers that is known here",
      std::nullopt};
}

/// What transformers calls a model: model_type, and the class. Null if it has none. Experts are
/// those of every block of Mixtral or Qwen3.
struct HfType {
  const char* type = nullptr;
  const char* name = nullptr;
};
HfType type_of(const ModelSpec& spec) {
  const bool experts = spec.experts > 0;
  if (!spec.is_decoder()) {
    const bool bert = spec.architecture == Architecture::Gpt2 && !spec.causal && spec.post_norm &&
                      spec.embedding_norm && spec.token_types > 0 && spec.head_transform;
    const bool plain = !experts && spec.tied_embeddings && spec.kv_heads == spec.heads;
    if (!bert || !plain) return {};
    return is_roberta(spec) ? HfType{"roberta", "RobertaForMaskedLM"}
                            : HfType{"bert", "BertForMaskedLM"};
  }
  if (spec.architecture == Architecture::Gpt2) {
    return experts ? HfType{} : HfType{"gpt2", "GPT2LMHeadModel"};
  }
  const int kinds = int{spec.qkv_bias} + int{spec.qk_norm} + int{spec.fused_names};
  if (spec.architecture != Architecture::Llama || kinds > 1) return {};
  if (spec.is_latent() || spec.dense_layers > 0 || spec.dense_ffn_hidden > 0) return {};
  if (spec.shared_expert_hidden > 0 || spec.router_bias_update_rate > 0) return {};
  if (spec.router_score != RouterScore::Softmax) return {};
  if (experts && (spec.expert_period != 1 || spec.qkv_bias || spec.fused_names)) return {};
  if (spec.qk_norm && experts) return {"qwen3_moe", "Qwen3MoeForCausalLM"};
  if (spec.qk_norm) return {"qwen3", "Qwen3ForCausalLM"};
  if (experts) return {"mixtral", "MixtralForCausalLM"};
  if (spec.qkv_bias) return {"qwen2", "Qwen2ForCausalLM"};
  if (spec.fused_names) return {"phi3", "Phi3ForCausalLM"};
  return {"llama", "LlamaForCausalLM"};
}
bool has_layout(const ModelSpec& spec) { return type_of(spec).type != nullptr; }

}  // namespace

std::int64_t HfTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()) -
         skipped;
}

Result<std::vector<HfTensor>> hf_tensors(const ModelSpec& spec, const Parameter& parameter) {
  if (!has_layout(spec)) return no_layout(spec);
  auto tensors = spec.is_encoder()                         ? bert_tensors(spec, parameter)
                 : spec.architecture == Architecture::Gpt2 ? gpt2_tensors(parameter)
                                                           : llama_tensors(spec, parameter);
  if (tensors.empty()) return no_layout(spec);
  return tensors;
}

bool is_hf_leftover(const ModelSpec& spec, const std::string& name) {
  if (name == "lm_head.weight") return spec.tied_embeddings;
  if (name.ends_with("rotary_emb.inv_freq")) return true;
  if (spec.is_encoder()) {  // the output layer is the table; the rest predicts the next sentence
    const std::string model = is_roberta(spec) ? "roberta." : "bert.";
    const std::string head = is_roberta(spec) ? "lm_head." : "cls.predictions.";
    return name.starts_with(head + "decoder.") || name.starts_with(model + "pooler.") ||
           name.starts_with("cls.seq_relationship.") || name == model + "embeddings.position_ids";
  }
  return spec.architecture == Architecture::Gpt2 &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

Result<std::string> print_hf_config(const ModelSpec& spec, const std::string& dtype) {
  if (!has_layout(spec)) return no_layout(spec);
  nlohmann::ordered_json config;
  if (spec.is_encoder()) {
    const std::int64_t before = is_roberta(spec) ? kRobertaPaddingRows : 0;
    const auto [type, name] = type_of(spec);
    config = {{"architectures", {name}},
              {"model_type", type},
              {"num_hidden_layers", spec.layers},
              {"hidden_size", spec.hidden},
              {"num_attention_heads", spec.heads},
              {"intermediate_size", spec.ffn_hidden},
              {"max_position_embeddings", spec.max_seq_len + before},
              {"type_vocab_size", spec.token_types},
              {"vocab_size", spec.vocab},
              {"layer_norm_eps", spec.norm_eps},
              {"hidden_act", "gelu_new"},
              {"mask_token_id", spec.mask_token}};  // transformers keeps what it does not know
    for (const char* key : {"attention_probs_dropout_prob", "hidden_dropout_prob"}) {
      config[key] = 0.0;
    }
    if (before > 0) config["pad_token_id"] = before - 1;
  } else if (spec.architecture == Architecture::Gpt2) {
    config = {{"architectures", {"GPT2LMHeadModel"}},
              {"model_type", "gpt2"},
              {"n_layer", spec.layers},
              {"n_embd", spec.hidden},
              {"n_head", spec.heads},
              {"n_inner", spec.ffn_hidden},
              {"n_positions", spec.max_seq_len},
              {"vocab_size", spec.vocab},
              {"layer_norm_epsilon", spec.norm_eps},
              {"activation_function", "gelu_new"}};
    for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) config[key] = 0.0;
  } else {
    const auto [type, name] = type_of(spec);
    config = {{"architectures", {name}},           {"model_type", type},
              {"num_hidden_layers", spec.layers},  {"hidden_size", spec.hidden},
              {"num_attention_heads", spec.heads}, {"num_key_value_heads", spec.kv_heads},
              {"head_dim", spec.head_dim},         {"intermediate_size", spec.ffn_hidden},
              {"vocab_size", spec.vocab},          {"rms_norm_eps", spec.norm_eps},
              {"rope_theta", spec.rope_theta},     {"hidden_act", "silu"},
              {"attention_dropout", 0.0}};
    if (spec.max_seq_len > 0) config["max_position_embeddings"] = spec.max_seq_len;
    if (const RopeScaling& rope = spec.rope_scaling; rope.factor != 1) {
      config["rope_scaling"] = {{"rope_type", rope.original_length > 0 ? "llama3" : "linear"},
                                {"factor", rope.factor}};
      if (rope.original_length > 0) {
        config["rope_scaling"]["original_max_position_embeddings"] = rope.original_length;
        config["rope_scaling"]["low_freq_factor"] = rope.low_freq_factor;
        config["rope_scaling"]["high_freq_factor"] = rope.high_freq_factor;
      }
    }
    if (spec.fused_names) config["pad_token_id"] = nullptr;  // Phi-3's default is a token's id
    if (spec.experts > 0 && spec.qk_norm) {
      config["moe_intermediate_size"] = spec.ffn_hidden;
      config["norm_topk_prob"] = true;
      config["decoder_sparse_step"] = 1;
      config["mlp_only_layers"] = nlohmann::ordered_json::array();
    }
    if (spec.experts > 0) {
      config[spec.qk_norm ? "num_experts" : "num_local_experts"] = spec.experts;
      config["num_experts_per_tok"] = spec.experts_per_token;
      config["router_aux_loss_coef"] = spec.router_aux_loss_coef;
      config["output_router_logits"] = spec.router_aux_loss_coef > 0;
    }
  }
  config["tie_word_embeddings"] = spec.tied_embeddings;
  config["torch_dtype"] = dtype;
  return config.dump(2) + "\n";
}

}  // namespace lockstep
