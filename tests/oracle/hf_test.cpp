// Compares models in the layout of Hugging Face's transformers with what an independent Python
// script computes of them: same files, same logits; and the files come back to the bit.
#include <cmath>
#include <iostream>
#include <map>

#include "backends/backends.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/generate/decoder.hpp"
#include "core/scenario/presets.hpp"
#include "core/weights/adapters.hpp"
#include "core/weights/weight_files.hpp"
#include "tests/catch.hpp"
#include "tests/oracle/oracle.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;
using namespace lockstep::oracle;

namespace {

template <class T>
std::vector<T> values_of(const std::string& path) {
  const std::string bytes = read_bytes(path);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// The tensors of all safetensors files of a folder.
std::map<std::string, Tensor> tensors_of(const std::filesystem::path& folder) {
  std::map<std::string, Tensor> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    auto file = read_safetensors(entry.path().string());
    if (!file) FAIL(to_string(file.error()));
    all.merge(file->tensors);
  }
  return all;
}

/// The logits of every token, read in passes of 32 tokens and of 2.
std::vector<float> logits_of(const ModelSpec& model, const StateReader& weights,
                             const std::vector<std::int32_t>& ids) {
  const auto made = make_decode_program(model, DType::F32, 128, {2, 32});
  if (!made) FAIL(to_string(made.error()));
  const auto backend = make_backend("cpu");
  REQUIRE(backend.ok());
  const auto device = (*backend)->open_device(made->program);
  REQUIRE(device.ok());
  Decoder decoder(*made, (*device)->device());
  const auto loaded = decoder.load(&weights);
  if (!loaded) FAIL(to_string(loaded.error()));
  auto logits = decoder.read(ids, true);
  if (!logits) FAIL(to_string(logits.error()));
  return std::move(*logits);
}

}  // namespace

TEST_CASE("logits of models of Hugging Face equal those of an independent model within 1e-5",
          "[oracle]") {
  const std::string& python = find_python();
  if (python.empty()) {
    std::cout << "skipped: neither python3 nor /usr/bin/python3 can import torch and numpy\n";
    return;
  }
  const std::string kind = GENERATE("gpt2", "llama", "linear", "llama3", "qwen2", "qwen3",
                                    "qwen3_moe", "phi3", "mixtral");
  CAPTURE(kind);
  const TemporaryFolder folder;
  const Outcome outcome =
      run_command(python + " " LOCKSTEP_SOURCE_DIR "/tests/oracle/hf_oracle.py " + kind + " '" +
                  folder.path.string() + "' 2>&1");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);

  const auto config = read_hf_config(folder / "config.json");
  if (!config) FAIL(to_string(config.error()));
  const auto weights = open_hf_weights(folder.path.string(), config->model, DType::F32);
  if (!weights) FAIL(to_string(weights.error()));
  const auto theirs = values_of<double>(folder / "logits.bin");
  const auto ours =
      logits_of(config->model, **weights, values_of<std::int32_t>(folder / "ids.bin"));
  REQUIRE(ours.size() == theirs.size());
  double furthest = 0, largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    furthest = std::max(furthest, std::abs(double{ours[i]} - theirs[i]));
    largest = std::max(largest, std::abs(theirs[i]));
  }
  CAPTURE(largest);
  CHECK(furthest <= 1e-5);
  CHECK(largest > 1);  // equal because both compute something, not because all is 0

  const TemporaryFolder again;
  const auto wrote = write_hf_weights(**weights, config->model, again.path.string(), {});
  if (!wrote) FAIL(to_string(wrote.error()));
  CHECK(tensors_of(again.path) == tensors_of(folder.path));
  auto read_again = read_hf_config(again / "config.json");
  REQUIRE(read_again.ok());
  read_again->model.name = config->model.name;
  CHECK(read_again->model == config->model);
}

TEST_CASE("a model with adapters has the logits of the one that they are merged into", "[oracle]") {
  for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
    ModelSpec model = *find_model_preset(preset);
    model.lora.rank = 4;
    const auto made = make_decode_program(model, DType::F32, 128, {2, 32});
    REQUIRE(made);
    const TrainingState state = random_weights(made->program);
    const HeldState held(state);
    const auto merged = merge_adapters(held, model);
    REQUIRE(merged);
    const std::vector<std::int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
    const std::vector<float> beside = logits_of(model, held, ids);
    const std::vector<float> within = logits_of(without_adapters(model), **merged, ids);
    REQUIRE(beside.size() == within.size());
    float most = 0, farthest = 0;
    for (std::size_t i = 0; i < beside.size(); ++i) {
      most = std::max(most, std::abs(beside[i]));
      farthest = std::max(farthest, std::abs(beside[i] - within[i]));
    }
    CHECK(farthest < 1e-5F * most);
    CHECK(most > 0.1F);
  }
}
