#include "core/hugging_face/describe.hpp"

#include <cmath>

namespace lockstep {
namespace {

using Json = nlohmann::json;

/// The width of a head where a file does not say it. Without heads, which is refused later, 0.
std::int64_t usual_head_dim(const ModelSpec& m) { return m.heads > 0 ? m.hidden / m.heads : 0; }

template <class T>
void set_part(std::optional<T>& part, T value, T usual) {
  if (value != usual) {
    part = value;
  } else {
    part.reset();
  }
}

/// What scales rotary positions: in transformers 5 "rope_parameters", which also has their base; in
/// transformers 4 "rope_scaling".
void read_scaling(HfMembers& in, ModelSpec& m) {
  const Json* given = in.object("rope_parameters");
  const Json* const scaling = in.object("rope_scaling");
  if (given == nullptr) given = scaling;
  if (given == nullptr) return;
  if (const auto full = given->find("full_attention"); full != given->end()) {  // by kind of block
    if (const auto local = given->find("sliding_attention"); local != given->end()) {
      HfMembers rope(*local, "rope");
      m.local_rope_theta = rope.number("rope_theta", m.local_rope_theta);
      if (rope.error()) in.fail(rope.error()->message);
    }
    given = &*full;
  }
  HfMembers rope(*given, "rope");
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

Json written_scaling(const RopeScaling& rope) {
  const bool llama3 = rope.original_length > 0;
  Json scaling = {{"rope_type", llama3 ? "llama3" : "linear"}, {"factor", rope.factor}};
  if (llama3) {
    scaling["original_max_position_embeddings"] = rope.original_length;
    scaling["low_freq_factor"] = rope.low_freq_factor;
    scaling["high_freq_factor"] = rope.high_freq_factor;
  }
  return scaling;
}

struct ActivationName {
  std::string_view name;
  Activation plain, gated;
};
constexpr ActivationName kActivations[] = {
    {"gelu_pytorch_tanh", Activation::Gelu, Activation::Geglu},
    {"gelu_new", Activation::Gelu, Activation::Geglu},
    {"gelu_fast", Activation::Gelu, Activation::Geglu},
    {"gelu", Activation::Gelu, Activation::Geglu},
    {"relu", Activation::Relu, Activation::Relu},
    {"relu2", Activation::SquaredRelu, Activation::SquaredRelu},
    {"silu", Activation::Swiglu, Activation::Swiglu},
    {"swish", Activation::Swiglu, Activation::Swiglu},
};

}  // namespace

void set_parts(ModelSpec& m, Architecture architecture, const BlockParts& parts) {
  const BlockParts usual = architecture == Architecture::Llama ? kLlamaParts : kGpt2Parts;
  m.architecture = architecture;
  set_part(m.norm, parts.norm, usual.norm);
  set_part(m.activation, parts.activation, usual.activation);
  set_part(m.positions, parts.positions, usual.positions);
  set_part(m.biases, parts.biases, usual.biases);
}

void set_equal_heads(ModelSpec& m) {
  m.kv_heads = m.heads;
  m.head_dim = usual_head_dim(m);
}

void describe_sizes(HfKeys& keys, ModelSpec& m, const HfSizes& usual) {
  keys.integer("num_hidden_layers", m.layers);
  keys.integer("hidden_size", m.hidden);
  const auto integer = [&](const char* key, std::int64_t& value, std::int64_t otherwise) {
    otherwise > 0 ? keys.integer(key, value, otherwise) : keys.integer(key, value);
  };
  integer("num_attention_heads", m.heads, usual.heads);
  keys.integer("num_key_value_heads", m.kv_heads, usual.kv_heads > 0 ? usual.kv_heads : m.heads);
  keys.integer("head_dim", m.head_dim, usual.head_dim > 0 ? usual.head_dim : usual_head_dim(m));
  keys.integer("intermediate_size", m.ffn_hidden);
  integer("vocab_size", m.vocab, usual.vocab);
  keys.integer("max_position_embeddings", m.max_seq_len, usual.positions);
  keys.boolean("tie_word_embeddings", m.tied_embeddings, usual.tied);
}

void describe_base_sizes(HfKeys& keys, ModelSpec& m, const char* ffn) {
  keys.integer("num_hidden_layers", m.layers, 12);
  keys.integer("hidden_size", m.hidden, 768);
  keys.integer("num_attention_heads", m.heads, 12);
  if (keys.reading() != nullptr) set_equal_heads(m);
  keys.integer(ffn, m.ffn_hidden, 3072);
}

void describe_activation(HfKeys& keys, ModelSpec& m, const char* key, const char* otherwise) {
  const BlockParts parts = m.parts();
  std::string name;  // the family's own, unless that is the GELU that is not computed
  for (const ActivationName& known : kActivations) {
    const bool same = known.plain == parts.activation || known.gated == parts.activation;
    const bool usual = known.name == otherwise && known.name != "gelu";
    if (same && (name.empty() || usual)) name = known.name;
  }
  keys.text(key, name, otherwise);
  HfMembers* const in = keys.reading();
  if (in == nullptr) return;
  const bool gated = is_gated(parts.activation);
  for (const ActivationName& known : kActivations) {
    const Activation found = gated ? known.gated : known.plain;
    if (known.name != name || is_gated(found) != gated) continue;
    set_parts(m, m.architecture, {parts.norm, found, parts.positions, parts.biases});
    if (name == "gelu") {
      in->warn(std::string(key) +
               " 'gelu' is computed by its approximation with tanh ('gelu_new'), which differs by "
               "less than 5e-4");
    }
    return;
  }
  in->lacks(std::string(key) + " '" + name + "'");
}

void describe_rope(HfKeys& keys, ModelSpec& m, double theta, const char* key) {
  keys.number(key, m.rope_theta, theta);
  if (HfMembers* const in = keys.reading()) {
    read_scaling(*in, m);
  } else if (m.rope_scaling.factor != 1) {
    keys.object("rope_scaling", written_scaling(m.rope_scaling));
  }
}

void describe_rotary_share(HfKeys& keys, ModelSpec& m, const char* key, double otherwise) {
  keys.number(key, m.rotary_fraction, otherwise);
  HfMembers* const in = keys.reading();
  const Json* const given = in != nullptr ? in->object("rope_parameters") : nullptr;
  if (given == nullptr) return;
  HfMembers rope(*given, "rope");
  m.rotary_fraction = rope.number("partial_rotary_factor", m.rotary_fraction);
  if (rope.error()) in->fail(rope.error()->message);
}

void describe_window(HfKeys& keys, ModelSpec& m, std::int64_t otherwise) {
  keys.integer_or_null("sliding_window", m.sliding_window, otherwise);
}

void describe_window_period(HfKeys& keys, ModelSpec& m, std::int64_t period) {
  HfMembers* const in = keys.reading();
  std::vector<std::string> kinds;
  if (in == nullptr) {
    for (std::int64_t i = 0; i < m.layers; ++i) {
      kinds.emplace_back(m.window_of(i) > 0 ? "sliding_attention" : "full_attention");
    }
    return keys.object("layer_types", kinds);
  }
  const Json* const list = in->list("layer_types");
  m.global_period = period;
  if (list == nullptr) return;
  std::int64_t first = 0;  // the first block without a window
  for (const Json& kind : *list) {
    if (kind == "full_attention") break;
    ++first;
  }
  m.global_period = first == static_cast<std::int64_t>(list->size()) ? 0 : first + 1;
  std::int64_t block = 0;
  for (const Json& kind : *list) {
    const bool full = m.global_period > 0 && (block + 1) % m.global_period == 0;
    if (kind != (full ? "full_attention" : "sliding_attention")) {
      return in->lacks("windows in blocks that follow no period (layer_types)");
    }
    ++block;
  }
  if (m.global_period == 1) m.global_period = m.sliding_window = 0;
}

void warn_of_room(HfMembers& in) {
  in.warn(
      "no token is dropped in transformers; here an expert has room for model.capacity_factor = "
      "1.25 times its even share: 0 drops none");
}

void warn_of_unused_balance(HfMembers& in, double balance) {
  in.warn("router_aux_loss_coef = " + Json(balance).dump() +
          " has no effect without output_router_logits, as in transformers; set "
          "model.router_aux_loss_coef to balance the experts");
}

void describe_llama_like(HfKeys& keys, ModelSpec& m, const LlamaUsual& usual) {
  HfMembers* const in = keys.reading();
  if (in != nullptr) set_parts(m, Architecture::Llama, usual.parts);
  describe_sizes(keys, m, usual.sizes);
  keys.number(usual.eps, m.norm_eps, usual.eps_value);
  describe_rope(keys, m, usual.rope_theta);
  describe_activation(keys, m, usual.activation, usual.activation_name);
  keys.dropout("attention_dropout", 0, "attention_dropout");
}

}  // namespace lockstep
