#include "core/weights/adapters.hpp"

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

}  // namespace

TEST_CASE("a merged weight is W + alpha / rank B A, whatever piece of it is read", "[core]") {
  for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
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
      const std::size_t inputs = to_size(info.shape[1]);
      double worst = 0;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        double sum = whole[i];
        for (std::size_t k = 0; k < 3; ++k) {
          sum += 5.0 / 3.0 * double{b[i / inputs * 3 + k]} * double{a[k * inputs + i % inputs]};
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

}  // namespace lockstep
