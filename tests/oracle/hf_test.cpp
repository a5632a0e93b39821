// Compares models in the layout of Hugging Face's transformers with what an independent Python
// script computes of them: same files, same logits; and the files come back to the bit.
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/backends.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/data/token_source.hpp"
#include "core/generate/decoder.hpp"
#include "core/hugging_face/config.hpp"
#include "core/lower/lower.hpp"
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

/// What the script writes into the folder, as config.json says it, and what it prints.
std::pair<Result<HfModel>, std::string> model_of_script(const std::string& python,
                                                        const std::string& kind,
                                                        const TemporaryFolder& folder) {
  const Outcome outcome =
      run_command(python + " " LOCKSTEP_SOURCE_DIR "/tests/oracle/hf_oracle.py " + kind + " '" +
                  folder.path.string() + "' 2>&1");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  Result<HfModel> config = read_hf_config(folder / "config.json");
  if (!config) FAIL(to_string(config.error()));
  return {std::move(config), outcome.output};
}

}  // namespace

TEST_CASE("logits of models of Hugging Face equal those of an independent model within 1e-5",
          "[oracle]") {
  const std::string& python = find_python();
  if (python.empty()) {
    std::cout << "skipped: neither python3 nor /usr/bin/python3 can import torch and numpy\n";
    return;
  }
  const std::string kind = GENERATE(
      "gpt2", "llama", "linear", "llama3", "qwen2", "qwen3", "qwen3_moe", "phi3", "mixtral",
      "mistral", "gemma", "gemma2", "gemma3_text", "granite", "gpt_neox", "gpt_neox_sequential",
      "opt", "starcoder2", "stablelm", "stablelm_parallel", "nemotron", "arcee");
  CAPTURE(kind);
  const TemporaryFolder folder;
  const auto [config, printed] = model_of_script(python, kind, folder);
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

TEST_CASE("encoders of Hugging Face have the loss of an independent model within 1e-5",
          "[oracle][encoder]") {
  const std::string& python = find_python();
  if (python.empty()) {
    std::cout << "skipped: neither python3 nor /usr/bin/python3 can import torch and numpy\n";
    return;
  }
  const std::string kind = GENERATE("bert", "roberta");
  CAPTURE(kind);
  const TemporaryFolder folder;
  constexpr int kSamples = 4, kLength = 50, kSeed = 3, kMasked = 15;
  Scenario s;
  s.training.seq_len = kLength;
  s.training.local_batch_size = s.training.global_batch_size = kSamples;
  s.training.steps = 1;
  s.training.seed = kSeed;
  s.training.mask_prob = 0.3;
  s.cluster.device.memory = Bytes{std::int64_t{1} << 30};
  const auto source = open_token_source(s.training.dataset, kLength, 61, kSeed);
  REQUIRE(source.ok());
  std::ofstream file(folder / "tokens.bin", std::ios::binary);
  std::vector<std::int32_t> tokens(kLength), targets(kLength);
  for (int sample = 0; sample < kSamples; ++sample) {
    (*source)->fill(sample, tokens, targets);
    file.write(reinterpret_cast<const char*>(tokens.data()), kLength * sizeof(std::int32_t));
  }
  file.close();
  std::ofstream(folder / "job.json") << nlohmann::json{
      {"seed", kSeed}, {"seq", kLength}, {"masked", kMasked}, {"mask_token", 60}, {"vocab", 61}};
  const auto [config, printed] = model_of_script(python, kind, folder);
  CHECK(config->model.max_seq_len == 128);
  s.model = config->model;
  CHECK(s.masked_tokens() == kMasked);
  const auto weights = open_hf_weights(folder.path.string(), s.model, DType::F32);
  if (!weights) FAIL(to_string(weights.error()));
  TrainingState state;
  for (const auto& [name, info] : (*weights)->head().tensors) {
    Tensor tensor{info.dtype, info.shape, std::vector<std::byte>(to_size(info.bytes()))};
    REQUIRE((*weights)->read(name, 0, tensor.data).ok());
    state.tensors.emplace(name, std::move(tensor));
  }
  const Result<Program> program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  const auto backend = make_backend("cpu");
  REQUIRE(backend.ok());
  RunOptions options;
  options.steps = 1;
  options.initial_state = &state;
  const Result<RunResult> result = (*backend)->run(*program, s.cluster, options);
  if (!result) FAIL(to_string(result.error()));
  const double theirs = std::stod(printed);
  CHECK(std::abs(result->trace.steps.front().loss - theirs) <= 1e-5);
  CHECK(theirs > std::log(61.0));  // random weights are worse than none
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
