#include "core/weights/adapters.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/index_vector.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/scenario/presets.hpp"
#include "core/weights/weight_files.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

ModelSpec adapted(const char* preset) {
  ModelSpec m = *find_model_preset(preset);
  m.lora.rank = 3;
  m.lora.alpha = 5;
  if (m.experts > 0)
    m.lora.target_modules = {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"};
  return m;
}

std::vector<float> floats(const Tensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

TrainingState random_state(const ModelSpec& model) {
  TrainingState state;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const Parameter& parameter : parameters_of(model)) {
    Tensor tensor{DType::F32, parameter.shape, {}};
    std::vector<float> values(to_size(parameter.elements()));
    for (float& value : values) value = normal(random);
    tensor.data.resize(values.size() * sizeof(float));
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
    state.tensors.emplace(parameter.name, std::move(tensor));
  }
  return state;
}

std::string message_of(const TrainingState& state, const ModelSpec& model,
                       const std::string& folder) {
  const auto merged = merge_peft_adapters(HeldState(state), model, folder);
  return merged ? "" : merged.error().message;
}

/// Changes one key of adapter_config.json.
void set_config(const TemporaryFolder& folder, const std::string& key,
                const nlohmann::json& value) {
  std::ifstream old(folder / "adapter_config.json");
  nlohmann::json config = nlohmann::json::parse(old);
  config[key] = value;
  std::ofstream(folder / "adapter_config.json") << config;
}

}  // namespace

TEST_CASE("a merged weight is W + alpha / rank B A, whatever piece of it is read", "[core]") {
  for (const char* preset : {"gpt2-tiny", "llama-tiny", "mixtral-tiny"}) {
    const ModelSpec model = adapted(preset);
    const TrainingState state = random_state(model);
    const HeldState held(state);
    const auto merged = merge_adapters(held, model);
    REQUIRE(merged);
    CHECK((*merged)->head().tensors.size() == parameters_of(without_adapters(model)).size());
    int adapters = 0;
    for (const auto& [name, info] : (*merged)->head().tensors) {
      INFO(name);
      const std::vector<float> whole = floats(state.tensors.at(name));
      std::vector<float> read(whole.size());
      const std::span<std::byte> bytes = std::as_writable_bytes(std::span(read));
      const std::size_t third = read.size() / 3 * sizeof(float);  // in the middle of a row
      REQUIRE((*merged)->read(name, 0, bytes.first(third)));
      REQUIRE((*merged)->read(name, static_cast<std::int64_t>(third), bytes.subspan(third)));
      const auto down = state.tensors.find(name + ".lora_a");
      if (down == state.tensors.end()) {
        CHECK(read == whole);
        continue;
      }
      ++adapters;
      const std::vector<float> a = floats(down->second);
      const std::vector<float> b = floats(state.tensors.at(name + ".lora_b"));
      const std::size_t inputs = to_size(info.shape.back());
      const std::size_t of_one = to_size(info.shape[info.shape.size() - 2]);  // rows of an expert
      double worst = 0;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        double sum = whole[i];
        for (std::size_t k = 0; k < 3; ++k) {
          sum += 5.0 / 3.0 * double{b[i / inputs * 3 + k]} *
                 double{a[(i / inputs / of_one * 3 + k) * inputs + i % inputs]};
        }
        worst = std::max(worst, std::abs(sum - double{read[i]}));
      }
      CHECK(worst < 2e-6);
    }
    CHECK(adapters == 4 * model.layers);
  }
}

TEST_CASE("PEFT's files have an adapter of each module, with the same A where one was divided",
          "[core]") {
  const TemporaryFolder folder;
  const ModelSpec model = adapted("llama-tiny");
  const TrainingState state = random_state(model);
  REQUIRE(write_peft_adapters(HeldState(state), model, "base", folder.path.string()));
  const auto file = read_safetensors(folder / "adapter_model.safetensors");
  REQUIRE(file);
  CHECK(file->tensors.size() == to_size(model.layers) * 7 * 2);
  const std::string layer = "base_model.model.model.layers.1.self_attn.";
  const std::vector<float> a = floats(state.tensors.at("blocks.1.attn.wqkv.lora_a"));
  const std::vector<float> b = floats(state.tensors.at("blocks.1.attn.wqkv.lora_b"));
  std::vector<float> rows;
  for (const char* module : {"q_proj", "k_proj", "v_proj"}) {
    CHECK(floats(file->tensors.at(layer + module + ".lora_A.weight")) == a);
    const Tensor& up = file->tensors.at(layer + module + ".lora_B.weight");
    CHECK(up.shape[1] == 3);
    const std::vector<float> part = floats(up);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  CHECK(rows == b);
  std::ifstream config_file(folder / "adapter_config.json");
  const auto config = nlohmann::json::parse(config_file);
  CHECK(config["peft_type"] == "LORA");
  CHECK(config["r"] == 3);
  CHECK(config["lora_alpha"] == 5);
  CHECK(config["fan_in_fan_out"] == false);
  CHECK(config["target_modules"] == nlohmann::json({"down_proj", "gate_proj", "k_proj", "o_proj",
                                                    "q_proj", "up_proj", "v_proj"}));
}

TEST_CASE("PEFT's files have an adapter of each expert's linear layers", "[core]") {
  const TemporaryFolder folder;
  ModelSpec model = adapted("mixtral-tiny");
  model.lora.target_modules = {"linear_fc1"};
  model.lora.dropout = 0.25;
  const TrainingState state = random_state(model);
  REQUIRE(write_peft_adapters(HeldState(state), model, "base", folder.path.string()));
  const auto file = read_safetensors(folder / "adapter_model.safetensors");
  REQUIRE(file);
  CHECK(file->tensors.size() == to_size(model.layers * model.experts) * 2 * 2);
  const std::string second = "base_model.model.model.layers.0.block_sparse_moe.experts.1.";
  const std::vector<float> a = floats(state.tensors.at("blocks.0.moe.experts.w13.lora_a"));
  const std::vector<float> b = floats(state.tensors.at("blocks.0.moe.experts.w13.lora_b"));
  const auto part = [](const std::vector<float>& of, std::int64_t first, std::int64_t count) {
    return std::vector<float>(of.begin() + first, of.begin() + first + count);
  };
  const std::int64_t rows = model.ffn_hidden, inputs = model.hidden;
  for (const auto& [module, first] : {std::pair("w1", 2 * rows), std::pair("w3", 3 * rows)}) {
    const Tensor& down = file->tensors.at(second + module + ".lora_A.weight");
    const Tensor& up = file->tensors.at(second + module + ".lora_B.weight");
    CHECK(down.shape == std::vector{std::int64_t{3}, inputs});
    CHECK(up.shape == std::vector{rows, std::int64_t{3}});
    CHECK(floats(down) == part(a, 3 * inputs, 3 * inputs));
    CHECK(floats(up) == part(b, first * 3, rows * 3));
  }
  std::ifstream config_file(folder / "adapter_config.json");
  const auto config = nlohmann::json::parse(config_file);
  CHECK(config["lora_dropout"] == 0.25);
  CHECK(config["target_modules"] == nlohmann::json({"w1", "w3"}));
}

TEST_CASE("PEFT's adapters of GPT-2 tell its two c_proj apart", "[core]") {
  const TemporaryFolder folder;
  ModelSpec model = adapted("gpt2-tiny");
  model.lora.target_modules = {"linear_proj"};
  const TrainingState state = random_state(model);
  REQUIRE(write_peft_adapters(HeldState(state), model, "base", folder.path.string()));
  const auto file = read_safetensors(folder / "adapter_model.safetensors");
  REQUIRE(file);
  CHECK(file->tensors.size() == to_size(model.layers) * 2);
  const Tensor& up = file->tensors.at("base_model.model.transformer.h.0.attn.c_proj.lora_B.weight");
  CHECK(up.shape == std::vector<std::int64_t>{model.hidden, 3});
  std::ifstream config_file(folder / "adapter_config.json");
  const auto config = nlohmann::json::parse(config_file);
  CHECK(config["target_modules"] == nlohmann::json({"attn.c_proj"}));
  CHECK(config["fan_in_fan_out"] == true);
}

TEST_CASE("a checkpoint without its adapters is refused by the first that is missing", "[core]") {
  const ModelSpec model = adapted("gpt2-tiny");
  const TrainingState state = random_state(without_adapters(model));
  const auto merged = merge_adapters(HeldState(state), model);
  REQUIRE_FALSE(merged);
  CHECK(merged.error().message == "the checkpoint lacks parameter 'blocks.0.attn.wqkv.lora_a'");
}

TEST_CASE("adapters written for PEFT and merged again are those merged where they were trained",
          "[core]") {
  for (const char* preset : {"gpt2-tiny", "llama-tiny", "mixtral-tiny"}) {
    INFO(preset);
    const TemporaryFolder folder;
    const ModelSpec model = adapted(preset), base = without_adapters(model);
    const TrainingState state = random_state(model);
    const HeldState held(state);
    REQUIRE(write_peft_adapters(held, model, "base", folder.path.string()));
    TrainingState weights;
    for (const Parameter& parameter : parameters_of(base)) {
      weights.tensors[parameter.name] = state.tensors.at(parameter.name);
    }
    const HeldState of_base(weights);
    const auto here = merge_adapters(held, model);
    const auto there = merge_peft_adapters(of_base, base, folder.path.string());
    REQUIRE(here);
    REQUIRE(there);
    REQUIRE((*here)->head().tensors == (*there)->head().tensors);
    for (const auto& [name, info] : (*here)->head().tensors) {
      std::vector<std::byte> a(to_size(info.bytes())), b(a.size());
      REQUIRE((*here)->read(name, 0, a));
      // In two pieces that meet in the middle of a row.
      const std::size_t cut = a.size() / 12 * 4;
      REQUIRE((*there)->read(name, 0, std::span(b).first(cut)));
      REQUIRE((*there)->read(name, static_cast<std::int64_t>(cut), std::span(b).subspan(cut)));
      INFO(name);
      CHECK(a == b);
    }
  }
}

TEST_CASE("an adapter counts by alpha over its own rank, or over the root of it with rsLoRA",
          "[core]") {
  // q_proj of layer 0 alone, of rank 4, where the configuration says 2: PEFT's rank_pattern.
  const ModelSpec model = *find_model_preset("llama-tiny");
  const TrainingState state = random_state(model);
  const HeldState held(state);
  const std::int64_t hidden = model.hidden;
  Tensor down{DType::F32, {4, hidden}, std::vector<std::byte>(to_size(16 * hidden))};
  Tensor up{DType::F32, {hidden, 4}, std::vector<std::byte>(to_size(16 * hidden))};
  const float one = 1;
  std::memcpy(down.data.data(), &one, sizeof(one));                     // A[0][0]
  std::memcpy(up.data.data() + 16 * sizeof(float), &one, sizeof(one));  // B[4][0]
  const std::string module = "base_model.model.model.layers.0.self_attn.q_proj";
  const TemporaryFolder folder;
  const auto write = [&] {
    const std::string a = module + ".lora_A.weight", b = module + ".lora_B.weight";
    REQUIRE(write_safetensors(folder / "adapter_model.safetensors", {{a, &down}, {b, &up}}, {}));
  };
  write();
  const std::string weight = "blocks.0.attn.wqkv";
  const std::vector<float> before = floats(state.tensors.at(weight));
  for (const bool by_root : {false, true}) {
    const nlohmann::json config = {{"peft_type", "LORA"},
                                   {"r", 2},
                                   {"lora_alpha", 3},
                                   {"use_rslora", by_root},
                                   {"rank_pattern", {{"q", 4}}},
                                   {"use_dora", false},
                                   {"alpha_pattern", nlohmann::json::object()}};
    std::ofstream(folder / "adapter_config.json") << config;
    const auto merged = merge_peft_adapters(held, model, folder.path.string());
    if (!merged) FAIL(merged.error().message);
    std::vector<float> after(before.size());
    REQUIRE((*merged)->read(weight, 0, std::as_writable_bytes(std::span(after))));
    for (std::size_t i = 0; i < after.size(); ++i) {
      const double more = i == to_size(4 * hidden) ? (by_root ? 3.0 / 2.0 : 3.0 / 4.0) : 0.0;
      CHECK(double{after[i]} == Approx(double{before[i]} + more).margin(1e-6));
    }
  }
  // What belongs to no layer is refused, and so is half of an adapter.
  up.shape = {hidden / 2, 8};
  write();
  CHECK(message_of(state, model, folder.path.string()).find("lora_B.weight' has shape [") !=
        std::string::npos);
  REQUIRE(write_safetensors(folder / "adapter_model.safetensors",
                            {{module + ".lora_A.weight", &down}}, {}));
  CHECK(message_of(state, model, folder.path.string()).find("no linear layer for tensor") !=
        std::string::npos);
  REQUIRE(write_safetensors(folder / "adapter_model.safetensors", {}, {}));
  CHECK(message_of(state, model, folder.path.string()).find("there are no adapters") !=
        std::string::npos);
}

TEST_CASE("adapters that more belongs to than B A are refused by the key that says so", "[core]") {
  const TemporaryFolder folder;
  const ModelSpec model = adapted("gpt2-tiny");
  const TrainingState state = random_state(model);
  REQUIRE(write_peft_adapters(HeldState(state), model, "base", folder.path.string()));
  const ModelSpec base = without_adapters(model);
  CHECK(message_of(state, base, folder.path.string()).empty());
  const std::vector<std::pair<std::string, nlohmann::json>> harmless = {
      {"use_dora", false}, {"modules_to_save", nullptr},      {"layer_replication", nullptr},
      {"r", 99},           {"init_lora_weights", "gaussian"}, {"some_future_key", nullptr}};
  for (const auto& [key, value] : harmless) {
    set_config(folder, key, value);
    INFO(key);
    CHECK(message_of(state, base, folder.path.string()).empty());
  }
  const std::vector<std::pair<std::string, nlohmann::json>> refused = {
      {"use_dora", true},
      {"bias", "lora_only"},
      {"modules_to_save", {"lm_head"}},
      {"alpha_pattern", {{"q_proj", 3}}},
      {"init_lora_weights", "pissa"},
      {"layer_replication", {{0, 4}}},
      {"some_future_key", 1},
      {"peft_type", "IA3"},
      {"lora_alpha", "much"}};
  for (const auto& [key, value] : refused) {
    const TemporaryFolder other;
    std::filesystem::copy(folder.path, other.path,
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
    set_config(other, key, value);
    const std::string message = message_of(state, base, other.path.string());
    INFO(key << ": " << message);
    CHECK(message.find(key) != std::string::npos);
  }
}

}  // namespace lockstep
