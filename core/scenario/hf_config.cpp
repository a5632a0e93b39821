#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/scenario/presets.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

/// Reads the members of one JSON object and remembers the first fault.
class Members {
 public:
  Members(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  std::int64_t integer(const char* key) {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return fail(std::string("'") + key + "' is missing");
    return read_integer(key, *it);
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? otherwise : read_integer(key, *it);
  }
  double number(const char* key, double otherwise) {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return otherwise;
    if (!it->is_number()) fail(std::string("'") + key + "' is not a number");
    return it->is_number() ? it->get<double>() : otherwise;
  }
  bool boolean(const char* key, bool otherwise) {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return otherwise;
    if (!it->is_boolean()) fail(std::string("'") + key + "' is not true or false");
    return it->is_boolean() ? it->get<bool>() : otherwise;
  }
  std::string text(const char* key, const char* otherwise) {
    const auto it = object_.find(key);
    return it != object_.end() && it->is_string() ? it->get<std::string>() : otherwise;
  }
  std::int64_t fail(const std::string& why, ErrorKind kind = ErrorKind::Parse) {
    if (!error_) error_ = Error{kind, path_ + ": " + why, std::nullopt};
    return 0;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::int64_t read_integer(const char* key, const Json& value) {
    if (!value.is_number_integer()) return fail(std::string("'") + key + "' is not an integer");
    return value.get<std::int64_t>();
  }
  const Json& object_;
  std::string path_;
  std::optional<Error> error_;
};

void read_llama(Members& in, const Json& config, ModelSpec& m) {
  m.architecture = Architecture::Llama;
  m.layers = in.integer("num_hidden_layers");
  m.hidden = in.integer("hidden_size");
  m.heads = in.integer("num_attention_heads");
  m.kv_heads = in.integer("num_key_value_heads", m.heads);
  m.head_dim = in.integer("head_dim", m.heads > 0 ? m.hidden / m.heads : 0);
  m.ffn_hidden = in.integer("intermediate_size");
  m.vocab = in.integer("vocab_size");
  m.max_seq_len = in.integer("max_position_embeddings", 0);
  m.tied_embeddings = in.boolean("tie_word_embeddings", false);
  m.norm_eps = in.number("rms_norm_eps", 1e-6);
  m.rope_theta = in.number("rope_theta", 10000.0);
  if (const auto rope = config.find("rope_parameters");
      rope != config.end() && rope->is_object()) {  // as transformers 5 writes it
    m.rope_theta = Members(*rope, "rope_parameters").number("rope_theta", m.rope_theta);
  }
  if (const std::string act = in.text("hidden_act", "silu"); act != "silu") {
    in.fail("hidden_act '" + act + "' is not supported, only silu", ErrorKind::Unsupported);
  }
  if (in.boolean("attention_bias", false) || in.boolean("mlp_bias", false)) {
    in.fail("biases in attention or MLP are not supported", ErrorKind::Unsupported);
  }
}

void read_gpt2(Members& in, ModelSpec& m) {
  m.architecture = Architecture::Gpt2;
  m.layers = in.integer("n_layer");
  m.hidden = in.integer("n_embd");
  m.heads = m.kv_heads = in.integer("n_head");
  m.head_dim = m.heads > 0 ? m.hidden / m.heads : 0;
  m.ffn_hidden = in.integer("n_inner", m.hidden < (std::int64_t{1} << 40) ? 4 * m.hidden : 0);
  m.vocab = in.integer("vocab_size");
  m.max_seq_len = in.integer("n_positions");
  m.tied_embeddings = in.boolean("tie_word_embeddings", true);
  m.norm_eps = in.number("layer_norm_epsilon", 1e-5);
  const std::string act = in.text("activation_function", "gelu_new");
  if (act != "gelu_new" && act != "gelu_pytorch_tanh") {
    in.fail("activation_function '" + act + "' is not supported, only gelu_new",
            ErrorKind::Unsupported);
  }
}

}  // namespace

Result<HfModel> parse_hf_config(std::string_view json, const std::string& path) {
  const Json config = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return Error{ErrorKind::Parse, path + " is not a JSON object", std::nullopt};
  }
  HfModel read;
  Members in(config, path);
  const std::string type = in.text("model_type", "");
  if (type == "llama" || type == "mistral" || type == "mixtral") {
    read_llama(in, config, read.model);
    if (type == "mixtral") {
      read.model.experts = in.integer("num_local_experts");
      read.model.experts_per_token = in.integer("num_experts_per_tok", 2);
      read.model.router_aux_loss_coef = in.number("router_aux_loss_coef", 0);
    }
    if (type != "llama") read.sliding_window = in.integer("sliding_window", 0);
  } else if (type == "gpt2") {
    read_gpt2(in, read.model);
  } else {
    in.fail("model_type '" + type + "' is not supported; valid: llama, mistral, mixtral, gpt2",
            ErrorKind::Unsupported);
  }
  if (in.error()) return *in.error();
  const std::filesystem::path file(path);
  read.model.name = in.text("_name_or_path", "");
  if (read.model.name.empty()) {
    const std::string folder = file.parent_path().filename().string();
    read.model.name = folder.empty() ? type : folder;
  }
  return read;
}

Result<HfModel> read_hf_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!(file && text << file.rdbuf())) {
    return Error{ErrorKind::Parse, "cannot read " + path, std::nullopt};
  }
  return parse_hf_config(text.str(), path);
}

}  // namespace lockstep
