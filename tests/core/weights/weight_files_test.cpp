#include "core/weights/weight_files.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "core/base/bfloat16.hpp"
#include "core/base/convert.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/hugging_face/config.hpp"
#include "core/hugging_face/tensors.hpp"
#include "core/scenario/presets.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

ModelSpec tiny(const std::string& kind) {
  ModelSpec m = *find_model_preset(kind == "gpt2"                             ? "gpt2-tiny"
                                   : kind == "bert" || kind == "roberta"      ? "bert-tiny"
                                   : kind == "mixtral" || kind == "qwen3_moe" ? "mixtral-tiny"
                                                                              : "llama-tiny");
  if (kind == "qwen2") m.qkv_bias = true;
  if (kind == "roberta") m.token_types = 1;
  if (kind == "llama3") m.rope_scaling = {8, 32, 1, 4};
  if (kind.starts_with("qwen3")) m.qk_norm = true;
  if (kind == "phi3") m.fused_names = true;
  if (kind.starts_with("gemma")) m = *find_model_preset("gemma2-tiny");
  if (kind == "gemma3_text") {
    m.qk_norm = true;
    m.attention_softcap = m.logit_softcap = 0;
    m.local_rope_theta = 100;
  }
  if (kind == "granite") m.residual_multiplier = 0.5;
  if (kind == "mistral") m.sliding_window = 24;
  if (kind == "gpt_neox") {
    m = *find_model_preset("gpt2-tiny");
    m.positions = Positions::Rotary;
    m.rotary_fraction = 0.25;
    m.parallel_branches = true;
  }
  if (kind == "opt") {
    m = *find_model_preset("gpt2-tiny");
    m.activation = Activation::Relu;
  }
  if (kind == "starcoder2") {
    m.norm = NormKind::LayerNorm;
    m.activation = Activation::Gelu;
    m.biases = true;
  }
  if (kind == "arcee") m.activation = Activation::SquaredRelu;
  if (kind == "stablelm") m.norm = NormKind::LayerNorm;
  if (kind == "nemotron") {
    m.norm = NormKind::LayerNorm;
    m.activation = Activation::SquaredRelu;
  }
  return m;
}

/// Values that name their place: a hash of the parameter's name and the element.
TrainingState numbered(const ModelSpec& model) {
  TrainingState state;
  for (const Parameter& parameter : parameters_of(model)) {
    Tensor tensor{DType::F32, parameter.shape, {}};
    std::vector<float> values(to_size(parameter.elements()));
    const auto seed = static_cast<float>(std::hash<std::string>()(parameter.name) % 1000);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = seed + static_cast<float>(i) / 65536;
    tensor.data.resize(values.size() * sizeof(float));
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
    state.tensors.emplace(parameter.name, std::move(tensor));
  }
  return state;
}

TrainingState read_all(const StateReader& reader) {
  TrainingState state;
  for (const auto& [name, info] : reader.head().tensors) {
    Tensor tensor{info.dtype, info.shape, std::vector<std::byte>(to_size(info.bytes()))};
    // In uneven pieces, because a reader is asked for shards.
    const std::size_t half = tensor.data.size() / 3 / 8 * 8;
    REQUIRE(reader.read(name, 0, std::span(tensor.data).first(half)).ok());
    REQUIRE(reader.read(name, static_cast<std::int64_t>(half), std::span(tensor.data).subspan(half))
                .ok());
    state.tensors.emplace(name, std::move(tensor));
  }
  return state;
}

std::vector<float> floats(const Tensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

}  // namespace

TEST_CASE("weights come back to the bit from Hugging Face's layout, of any kind and in any files",
          "[core][weights]") {
  const std::string kind =
      GENERATE("gpt2", "bert", "roberta", "llama", "llama3", "qwen2", "qwen3", "qwen3_moe", "phi3",
               "mixtral", "mistral", "gemma2", "gemma3_text", "granite", "gpt_neox", "opt",
               "starcoder2", "arcee", "stablelm", "nemotron");
  const std::int64_t shard = GENERATE(5'000'000'000, 20'000);
  CAPTURE(kind, shard);
  const ModelSpec model = tiny(kind);
  const TrainingState state = numbered(model);
  const TemporaryFolder folder;
  const auto wrote = write_hf_weights(HeldState(state), model, folder.path, {DType::F32, shard});
  if (!wrote) FAIL(to_string(wrote.error()));
  auto config = read_hf_config(folder / "config.json");
  if (!config) FAIL(to_string(config.error()));
  ModelSpec again = config->model;
  again.name = model.name;
  again.capacity_factor = model.capacity_factor;
  CHECK(again == model);
  const auto reader = open_hf_weights(folder.path, again, DType::F32);
  if (!reader) FAIL(to_string(reader.error()));
  CHECK(read_all(**reader).tensors == state.tensors);
}

TEST_CASE("tensors have the names and shapes that transformers gives them", "[core][weights]") {
  const TemporaryFolder folder;
  const ModelSpec gpt2 = tiny("gpt2");
  const TrainingState state = numbered(gpt2);
  REQUIRE(write_hf_weights(HeldState(state), gpt2, folder.path, {}).ok());
  const auto file = read_safetensors(folder / "model.safetensors");
  REQUIRE(file.ok());
  CHECK(file->metadata.at("format") == "pt");
  // A Conv1D of transformers is [in, out]: queries, keys and values beside each other.
  const Tensor& there = file->tensors.at("transformer.h.2.attn.c_attn.weight");
  CHECK(there.shape == std::vector<std::int64_t>{64, 192});
  const std::vector<float> x = floats(there), y = floats(state.tensors.at("blocks.2.attn.wqkv"));
  CHECK(x[5 * 192 + 70] == y[70 * 64 + 5]);
  CHECK(file->tensors.count("lm_head.weight") == 0);  // tied

  const TemporaryFolder other;
  const ModelSpec mixtral = tiny("mixtral");
  REQUIRE(write_hf_weights(HeldState(numbered(mixtral)), mixtral, other.path, {}).ok());
  const auto index = read_safetensors_index(other / "model.safetensors");
  REQUIRE(index.ok());
  const auto shape = [&](const std::string& name) { return index->tensors.at(name).info.shape; };
  using Shape = std::vector<std::int64_t>;
  CHECK(shape("model.layers.3.self_attn.k_proj.weight") == Shape{32, 64});
  CHECK(shape("model.layers.0.block_sparse_moe.experts.2.w2.weight") == Shape{64, 96});
  CHECK(shape("model.layers.0.block_sparse_moe.experts.3.w3.weight") == Shape{96, 64});
  CHECK(shape("lm_head.weight") == Shape{256, 64});

  const TemporaryFolder third;
  const ModelSpec phi3 = tiny("phi3");
  REQUIRE(write_hf_weights(HeldState(numbered(phi3)), phi3, third.path, {}).ok());
  const auto fused = read_safetensors(third / "model.safetensors");
  REQUIRE(fused.ok());
  CHECK(fused->tensors.at("model.layers.0.self_attn.qkv_proj.weight").shape[0] ==
        (phi3.heads + 2 * phi3.kv_heads) * phi3.head_dim);
  CHECK(fused->tensors.at("model.layers.0.mlp.gate_up_proj.weight").shape[0] ==
        2 * phi3.ffn_hidden);
}

TEST_CASE("BERT's tensors are those of BertForMaskedLM, and others of its classes are left out",
          "[core][weights][encoder]") {
  const TemporaryFolder folder;
  const ModelSpec bert = tiny("bert");
  const TrainingState state = numbered(bert);
  REQUIRE(write_hf_weights(HeldState(state), bert, folder.path, {}).ok());
  auto file = read_safetensors(folder / "model.safetensors");
  REQUIRE(file.ok());
  // Its state_dict has 5 tensors of embeddings, 16 of each of 4 layers and 5 of the head beside the
  // output layer, whose weight is the table of tokens.
  CHECK(file->tensors.size() == 5 + 16 * 4 + 5);
  using Shape = std::vector<std::int64_t>;
  const auto shape = [&](const std::string& name) { return file->tensors.at(name).shape; };
  CHECK(shape("bert.embeddings.token_type_embeddings.weight") == Shape{2, 64});
  CHECK(shape("bert.embeddings.LayerNorm.bias") == Shape{64});
  CHECK(shape("bert.encoder.layer.3.intermediate.dense.weight") == Shape{256, 64});
  CHECK(shape("cls.predictions.bias") == Shape{256});
  CHECK(shape("cls.predictions.transform.LayerNorm.weight") == Shape{64});
  const std::vector<float> x =
      floats(file->tensors.at("bert.encoder.layer.1.attention.self.key.weight"));
  const std::vector<float> y = floats(state.tensors.at("blocks.1.attn.wqkv"));
  CHECK(x[70] == y[64 * 64 + 70]);
  // What BertForPreTraining has beside these, and the names of old files.
  std::map<std::string, Tensor> old;
  for (auto& [name, tensor] : file->tensors) {
    const std::size_t norm = name.find("LayerNorm.weight");
    old.emplace(norm == std::string::npos ? name : name.substr(0, norm) + "LayerNorm.gamma",
                std::move(tensor));
  }
  for (const char* name : {"bert.embeddings.position_ids", "bert.pooler.dense.weight",
                           "cls.predictions.decoder.bias", "cls.seq_relationship.weight"}) {
    old.emplace(name, Tensor{DType::F32, {1}, std::vector<std::byte>(4)});
  }
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : old) named.push_back({name, &tensor});
  const auto rewritten = write_safetensors(folder / "model.safetensors", named, {});
  if (!rewritten) FAIL(to_string(rewritten.error()));
  const auto reader = open_hf_weights(folder.path, bert, DType::F32);
  if (!reader) FAIL(to_string(reader.error()));
  CHECK(read_all(**reader).tensors == state.tensors);
}

TEST_CASE("RoBERTa's table of positions has two rows more there, and its head another name",
          "[core][weights][encoder]") {
  const TemporaryFolder folder;
  const ModelSpec roberta = tiny("roberta");
  const TrainingState state = numbered(roberta);
  REQUIRE(write_hf_weights(HeldState(state), roberta, folder.path, {}).ok());
  auto file = read_safetensors(folder / "model.safetensors");
  REQUIRE(file.ok());
  CHECK(file->tensors.size() == 5 + 16 * 4 + 5);
  CHECK(file->tensors.count("lm_head.layer_norm.weight") == 1);
  const Tensor& there = file->tensors.at("roberta.embeddings.position_embeddings.weight");
  CHECK(there.shape[0] == roberta.max_seq_len + 2);
  const std::vector<float> x = floats(there), y = floats(state.tensors.at("embed.wpe"));
  const auto before = to_size(2 * roberta.hidden);
  CHECK(std::all_of(x.begin(), x.begin() + 2 * roberta.hidden, [](float v) { return v == 0; }));
  CHECK(std::equal(x.begin() + 2 * roberta.hidden, x.end(), y.begin(), y.end()));
  CHECK(x.size() == before + y.size());
}

TEST_CASE("a model that no class of transformers computes has no layout", "[core][weights]") {
  const TemporaryFolder folder;
  for (const char* kind : {"qwen2", "phi3"}) {
    ModelSpec model = tiny(kind);
    model.qk_norm = true;
    const auto wrote = write_hf_weights(HeldState(numbered(model)), model, folder.path, {});
    REQUIRE(!wrote.ok());
    CHECK(wrote.error().kind == ErrorKind::Unsupported);
  }
}

TEST_CASE("weights in other types are converted, and those of the bare GPT-2 are found",
          "[core][weights]") {
  const ModelSpec model = tiny("gpt2");
  const TrainingState state = numbered(model);
  const TemporaryFolder folder;
  REQUIRE(write_hf_weights(HeldState(state), model, folder.path, {DType::BF16}).ok());
  auto file = read_safetensors(folder / "model.safetensors");
  REQUIRE(file.ok());
  std::vector<NamedTensor> named;
  std::map<std::string, Tensor> bare;
  for (auto& [name, tensor] : file->tensors) {
    bare.emplace(name.substr(name.find('.') + 1), std::move(tensor));
  }
  Tensor mask{DType::U8, {1, 1, 2, 2}, std::vector<std::byte>(4)};
  bare.emplace("h.0.attn.bias", std::move(mask));
  for (const auto& [name, tensor] : bare) named.push_back({name, &tensor});
  REQUIRE(write_safetensors(folder / "model.safetensors", named, {}).ok());
  const auto reader = open_hf_weights(folder.path, model, DType::F64);
  if (!reader) FAIL(to_string(reader.error()));
  const Tensor table = read_all(**reader).tensors.at("embed.wte");
  const std::vector<float> own = floats(state.tensors.at("embed.wte"));
  std::vector<double> got(own.size());
  std::memcpy(got.data(), table.data.data(), table.data.size());
  for (std::size_t i = 0; i < own.size(); i += 97) {
    CHECK(got[i] == static_cast<float>(bfloat16(own[i])));
  }
}

TEST_CASE("weights that are not those of the model are refused by name", "[core][weights]") {
  const ModelSpec model = tiny("llama");
  const TemporaryFolder folder;
  CHECK(open_hf_weights(folder.path, model, DType::F32)
            .error()
            .message.find("there is neither model.safetensors nor model.safetensors.index.json") !=
        std::string::npos);
  REQUIRE(write_hf_weights(HeldState(numbered(model)), model, folder.path, {}).ok());
  const auto message = [&](const ModelSpec& other) {
    const auto opened = open_hf_weights(folder.path, other, DType::F32);
    return opened ? std::string() : opened.error().message.substr(folder.path.string().size());
  };
  CHECK(message(model).empty());
  ModelSpec other = model;
  other.layers = 5;
  CHECK(message(other) == ": tensor 'model.layers.4.input_layernorm.weight' is missing");
  other = model;
  other.layers = 3;
  CHECK(message(other) ==
        ": the model of config.json has no use for tensor "
        "'model.layers.3.input_layernorm.weight' and 8 others");
  other = model;
  other.ffn_hidden = 200;
  CHECK(message(other) ==
        ": tensor 'model.layers.0.mlp.gate_proj.weight' has shape [192, 64], config.json says "
        "[200, 64]");
}

TEST_CASE("tensors that the model leaves out may have any type, and its own may not",
          "[core][weights]") {
  // Files of GPT-2 hold its mask as BOOL, those of RoBERTa its positions as I64.
  const ModelSpec model = tiny("gpt2");
  const TrainingState state = numbered(model);
  const TemporaryFolder folder;
  REQUIRE(write_hf_weights(HeldState(state), model, folder.path, {}).ok());
  const std::string path = folder / "model.safetensors", whole = read_bytes(path);
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  const std::string header = whole.substr(8, length), values = whole.substr(8 + length);
  const auto with = [&](const std::string& name, const std::string& type, std::size_t bytes) {
    const std::string more = "{\"" + name + "\":{\"dtype\":\"" + type +
                             "\",\"shape\":[2,3],\"data_offsets\":[" +
                             std::to_string(values.size()) + "," +
                             std::to_string(values.size() + bytes) + "]}," + header.substr(1);
    const std::uint64_t longer = more.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &longer, sizeof longer);
    write_bytes(path, file + more + values + std::string(bytes, '\1'));
    return open_hf_weights(folder.path, model, DType::F32);
  };
  const auto masked = with("transformer.h.0.attn.bias", "BOOL", 6);
  if (!masked) FAIL(to_string(masked.error()));
  CHECK(read_all(**masked).tensors == state.tensors);
  CHECK(with("transformer.h.1.attn.bias", "I64", 48).ok());
  CHECK_THAT(with("transformer.h.1.attn.bias", "I64", 6).error().message,
             ContainsSubstring("hold 6 bytes, dtype and shape need 48"));
  CHECK_THAT(with("transformer.h.1.attn.bias", "F3", 6).error().message,
             ContainsSubstring("element type F3"));
  CHECK_THAT(with("other", "I64", 48).error().message,
             ContainsSubstring("has no use for tensor 'other' and 0 others"));
  std::string quantized = whole;
  const std::size_t at = quantized.find("\"transformer.ln_f.bias\"");
  REQUIRE(at != std::string::npos);
  quantized.replace(quantized.find("\"F32\"", at), 5, "\"U32\"");
  write_bytes(path, quantized);
  const auto refused = open_hf_weights(folder.path, model, DType::F32);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::Unsupported);
  CHECK_THAT(refused.error().message,
             ContainsSubstring("tensor 'transformer.ln_f.bias' has elements of type U32"));
}

TEST_CASE("weights that are written over others are read, in one file or several",
          "[core][weights]") {
  const ModelSpec model = tiny("llama");
  const TrainingState first = numbered(model);
  TrainingState second = first;
  for (auto& [name, tensor] : second.tensors) {
    std::fill(tensor.data.begin(), tensor.data.end(), std::byte{0});
  }
  const TemporaryFolder folder;
  for (const TrainingState* state :
       std::initializer_list<const TrainingState*>{&first, &second, &first}) {
    const std::int64_t shard = state == &second ? 20'000 : 5'000'000'000;
    REQUIRE(write_hf_weights(HeldState(*state), model, folder.path, {DType::F32, shard}).ok());
    const auto reader = open_hf_weights(folder.path, model, DType::F32);
    if (!reader) FAIL(to_string(reader.error()));
    CHECK(read_all(**reader).tensors == state->tensors);
    CHECK(std::filesystem::exists(folder / "model.safetensors") == (state == &first));
    CHECK(std::filesystem::exists(folder / "model.safetensors.index.json") == (state == &second));
  }
}

TEST_CASE("an index of files is damaged if it leads out of the folder or nowhere",
          "[core][weights]") {
  const ModelSpec model = tiny("llama");
  const TemporaryFolder folder;
  const auto message = [&](const std::string& index) {
    write_bytes(folder / "model.safetensors.index.json", index);
    const auto opened = open_hf_weights(folder.path, model, DType::F32);
    REQUIRE(!opened.ok());
    return opened.error().message;
  };
  CHECK(message("{}").find("there is no object 'weight_map'") != std::string::npos);
  CHECK(
      message(R"({"weight_map":{"a":"../b"}})").find("the file of 'a' is no name in this folder") !=
      std::string::npos);
  CHECK(message(R"({"weight_map":{"a":"gone.safetensors"}})").find("gone.safetensors") !=
        std::string::npos);
}

}  // namespace lockstep
