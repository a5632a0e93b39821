// Compares residual networks and vision transformers on the CPU with independent PyTorch models:
// same weights, same images, same losses and running statistics. The tests are skipped, with the
// reason, if no Python with PyTorch is found.
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "backends/backends.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/data/dataset.hpp"
#include "core/lower/lower.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/oracle/oracle.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;
using namespace lockstep::oracle;

namespace {

constexpr int kSteps = 4;

/// Four steps of a model on one rank, each in two passes of four images.
Scenario scenario_of(OptimizerKind optimizer, DType dtype) {
  Scenario s;
  s.model.name = "oracle";
  s.model.classes = 7;
  s.cluster.name = "one rank";
  s.cluster.device.memory = Bytes{std::int64_t{1} << 30};
  s.training.seq_len = 1;
  s.training.local_batch_size = 4;
  s.training.global_batch_size = 8;  // batch norm has statistics of each pass
  s.training.steps = kSteps;
  s.training.dtype = dtype;
  s.optimizer.name = optimizer;
  s.optimizer.lr = optimizer == OptimizerKind::Sgd ? 0.01 : 1e-3;
  s.optimizer.weight_decay = 1e-2;
  return s;
}

Scenario resnet(bool bottleneck, bool small_stem, OptimizerKind optimizer, DType dtype) {
  Scenario s = scenario_of(optimizer, dtype);
  ModelSpec& m = s.model;
  m.architecture = Architecture::Resnet;
  m.blocks = {1, 2};
  m.layers = 3;
  m.bottleneck = bottleneck;
  m.small_stem = small_stem;
  m.width = 6;
  m.image_size = small_stem ? 13 : 29;  // odd: strides leave a rest
  return s;
}

Scenario vision_transformer(OptimizerKind optimizer, DType dtype) {
  Scenario s = scenario_of(optimizer, dtype);
  ModelSpec& m = s.model;
  m.architecture = Architecture::Vit;
  m.layers = 3;
  m.hidden = 24;
  m.heads = m.kv_heads = 3;
  m.head_dim = 8;
  m.ffn_hidden = 40;
  m.image_size = 20;
  m.patch_size = 4;
  m.norm_eps = 1e-6;
  return s;
}

void write_job(const Scenario& s, const Samples& samples, const TemporaryFolder& folder) {
  const ModelSpec& m = s.model;
  const nlohmann::json job = {
      {"layers", m.layers},
      {"hidden", m.hidden},
      {"heads", m.heads},
      {"ffn_hidden", m.ffn_hidden},
      {"patch_size", m.patch_size},
      {"classes", m.classes},
      {"blocks", m.blocks},
      {"bottleneck", m.bottleneck},
      {"small_stem", m.small_stem},
      {"image_size", m.image_size},
      {"norm_eps", m.norm_eps},
      {"norm_momentum", m.norm_momentum},
      {"optimizer", s.optimizer.name == OptimizerKind::Sgd ? "SGD" : "AdamW"},
      {"lr", s.optimizer.lr},
      {"momentum", s.optimizer.momentum},
      {"beta1", s.optimizer.beta1},
      {"beta2", s.optimizer.beta2},
      {"eps", s.optimizer.eps},
      {"weight_decay", s.optimizer.weight_decay},
      {"max_norm", s.training.max_norm},
      {"steps", s.training.steps},
      {"passes", s.accumulation_steps()},
      {"mixed", s.training.keeps_master()},
      {"batch", s.training.local_batch_size}};
  std::ofstream(folder / "job.json") << job;
  const Result<SampleSource> source = open_dataset(samples, s.training.seed, s.dataset_path());
  REQUIRE(source.ok());
  std::ofstream images(folder / "images.bin", std::ios::binary);
  std::ofstream labels(folder / "labels.bin", std::ios::binary);
  std::vector<std::int32_t> pixels(static_cast<std::size_t>(m.image_elements())), label(1);
  const auto write = [](std::ofstream& file, const std::vector<std::int32_t>& values) {
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(std::int32_t)));
  };
  for (int sample = 0; sample < s.training.steps * s.global_batch_size(); ++sample) {
    (*source)(sample, pixels, label);
    write(images, pixels);
    write(labels, label);
  }
}

struct OracleRun {
  std::vector<StepNumbers> steps;
  std::map<std::string, double> kept;  // sum of squares, by name of the running statistic
};

OracleRun run_oracle(const Scenario& s, const Samples& samples, const TrainingState& weights) {
  const TemporaryFolder folder;
  write_job(s, samples, folder);
  REQUIRE(save_checkpoint(weights, folder.path.string()).ok());
  std::filesystem::rename(folder.path / "step-0/model.safetensors",
                          folder.path / "model.safetensors");
  const Outcome outcome = run_command(find_python() + " -B " LOCKSTEP_SOURCE_DIR "/tests/oracle/" +
                                      (s.model.has_batch_norm() ? "resnet" : "vit") +
                                      "_oracle.py '" + folder.path.string() + "' 2>&1");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  OracleRun run;
  std::istringstream lines(outcome.output);
  run.steps.resize(kSteps);
  for (StepNumbers& step : run.steps) REQUIRE(lines >> step.loss >> step.grad_norm);
  std::string name;
  for (double squares = 0; lines >> name >> squares;) run.kept[name] = squares;
  return run;
}

double sum_of_squares(const Tensor& tensor) {
  double sum = 0;
  const auto element = static_cast<std::size_t>(size_of(tensor.dtype));
  for (std::size_t i = 0; i < tensor.data.size(); i += element) {
    double wide = 0;
    float narrow = 0;
    std::memcpy(tensor.dtype == DType::F64 ? static_cast<void*>(&wide) : &narrow, &tensor.data[i],
                element);
    const double value = tensor.dtype == DType::F64 ? wide : static_cast<double>(narrow);
    sum += value * value;
  }
  return sum;
}

void compare(const Scenario& s, double tolerance) {
  if (find_python().empty()) {
    std::cout << "skipped: neither python3 nor /usr/bin/python3 can import torch and numpy\n";
    return;
  }
  INFO("patch_size " << s.model.patch_size << " bottleneck " << s.model.bottleneck << " small_stem "
                     << s.model.small_stem);
  for (const Fault& fault : validate(s)) FAIL(fault.error.message);
  const Result<Program> program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  const TrainingState weights = random_weights(*program);
  Result<std::unique_ptr<Backend>> backend = make_backend("cpu");
  REQUIRE(backend.ok());
  RunOptions options;
  options.steps = kSteps;
  options.initial_state = &weights;
  options.return_state = true;
  const Result<RunResult> ours = (*backend)->run(*program, s.cluster, options);
  if (!ours) FAIL(to_string(ours.error()));
  const OracleRun theirs = run_oracle(s, program->input.samples, weights);
  for (std::size_t i = 0; i < kSteps; ++i) {
    INFO("step " << i);
    CHECK(std::abs(ours->trace.steps[i].loss - theirs.steps[i].loss) <= tolerance);
    CHECK(std::abs(ours->trace.steps[i].grad_norm - theirs.steps[i].grad_norm) <=
          10 * tolerance * theirs.steps[i].grad_norm);
  }
  CHECK((theirs.kept.size() > 6) == s.model.has_batch_norm());
  for (const auto& [name, squares] : theirs.kept) {
    INFO(name);
    REQUIRE(ours->state.tensors.contains(name));
    CHECK(std::abs(sum_of_squares(ours->state.tensors.at(name)) - squares) <=
          10 * tolerance * squares);
  }
  CHECK(theirs.steps.back().loss != theirs.steps.front().loss);  // both train
}

}  // namespace

TEST_CASE("losses, norms and running statistics of residual networks equal PyTorch's in float64",
          "[oracle]") {
  compare(resnet(false, true, OptimizerKind::Sgd, DType::F64), 1e-11);
  compare(resnet(true, true, OptimizerKind::AdamW, DType::F64), 1e-11);
  compare(resnet(true, false, OptimizerKind::Sgd, DType::F64), 1e-11);
}

TEST_CASE("a residual network's first losses equal PyTorch's within 1e-5 in float32", "[oracle]") {
  compare(resnet(true, false, OptimizerKind::Sgd, DType::F32), 1e-5);
}

TEST_CASE("in bfloat16 with float32 statistics a residual network stays within 5e-3 of PyTorch's",
          "[oracle]") {
  for (const bool bottleneck : {false, true}) {
    Scenario s = resnet(bottleneck, false, OptimizerKind::Sgd, DType::F32);
    s.training.mixed_precision_param = PartDType::BF16;
    compare(s, 5e-3);
  }
}

TEST_CASE("losses and norms of vision transformers equal those of PyTorch's encoder in float64",
          "[oracle]") {
  compare(vision_transformer(OptimizerKind::Sgd, DType::F64), 1e-11);
  compare(vision_transformer(OptimizerKind::AdamW, DType::F64), 1e-11);
}

TEST_CASE("a vision transformer's first losses equal PyTorch's within 1e-5 in float32",
          "[oracle]") {
  compare(vision_transformer(OptimizerKind::AdamW, DType::F32), 1e-5);
}
