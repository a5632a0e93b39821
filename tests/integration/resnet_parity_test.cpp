// Residual networks: every strategy equals one rank that takes the same microbatches, and with
// synchronized batch norm one rank that takes all images at once.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/cpu_backend.hpp"
#include "core/lower/lower.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

constexpr int kSteps = 6;

struct Layout {
  int replicate = 1, shard = 1, tensor = 1, zero = 3, pp = 1, microbatches = 1, accumulation = 1;
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  bool synchronized = false;
  OptimizerKind optimizer = OptimizerKind::Sgd;
  int ranks() const { return replicate * shard; }
};

/// `images` of a microbatch on one rank.
Scenario scenario_of(const Layout& layout, int images, bool bottleneck, DType dtype) {
  Scenario s;
  ModelSpec& m = s.model;
  m.architecture = Architecture::Resnet;
  m.blocks = {1, 2, 1};
  m.layers = 4;
  m.bottleneck = bottleneck;
  m.width = 4;
  m.image_size = 12;
  m.classes = 10;
  m.small_stem = true;
  s.cluster.ranks_per_device = 64;
  s.training.seq_len = 1;
  s.training.local_batch_size = images * layout.microbatches;
  s.training.global_batch_size = s.training.local_batch_size * layout.ranks() * layout.accumulation;
  s.training.steps = kSteps;
  s.training.dtype = dtype;
  s.optimizer.name = layout.optimizer;
  s.optimizer.lr = layout.optimizer == OptimizerKind::Sgd ? 0.05 : 2e-3;
  s.optimizer.weight_decay = 1e-3;
  s.strategy.data_parallel_replicate_degree = layout.replicate;
  s.strategy.data_parallel_shard_degree = layout.shard;
  s.strategy.tensor_parallel_degree = layout.tensor;
  s.strategy.zero_stage = layout.zero;
  s.strategy.pipeline_parallel_degree = layout.pp;
  s.strategy.pipeline_parallel_microbatches = layout.microbatches;
  s.strategy.pipeline_parallel_schedule = layout.schedule;
  s.strategy.sync_batch_norm = layout.synchronized;
  return s;
}

RunResult train(const Scenario& s, int steps = kSteps, const TrainingState* from = nullptr) {
  for (const Fault& fault : validate(s)) FAIL(fault.error.message);
  const auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  RunOptions options;
  options.steps = steps;
  options.initial_state = from;
  options.return_state = true;
  auto run = make_cpu_backend({.poison = true})->run(*program, s, options);
  if (!run) FAIL(to_string(run.error()));
  return std::move(*run);
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> out;
  const auto element = static_cast<std::size_t>(size_of(tensor.dtype));
  for (std::size_t i = 0; i < tensor.data.size(); i += element) {
    double wide = 0;
    float narrow = 0;
    std::memcpy(element == 8 ? static_cast<void*>(&wide) : &narrow, &tensor.data[i], element);
    out.push_back(element == 8 ? wide : static_cast<double>(narrow));
  }
  return out;
}

/// Relative distance of the weights, and of the running statistics if `statistics`.
double state_distance(const TrainingState& a, const TrainingState& b, bool statistics) {
  double difference = 0, norm = 0;
  for (const auto& [name, tensor] : b.tensors) {
    if (name.starts_with("adam_")) continue;
    const bool running = name.find(".running_") != std::string::npos;
    REQUIRE(a.tensors.count(name) == 1);
    if (running != statistics) continue;
    const std::vector<double> x = values(a.tensors.at(name)), y = values(tensor);
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      norm += y[i] * y[i];
    }
  }
  return std::sqrt(difference / norm);
}

void check_equal(const RunResult& mine, const RunResult& reference, bool statistics,
                 double tolerance) {
  for (std::size_t step = 0; step < kSteps; ++step) {
    const StepResult& a = mine.trace.steps[step];
    const StepResult& b = reference.trace.steps[step];
    CHECK(std::abs(a.loss - b.loss) <= tolerance * std::abs(b.loss));
    CHECK(std::abs(a.grad_norm - b.grad_norm) <= 20 * tolerance * b.grad_norm);
  }
  CHECK(state_distance(mine.state, reference.state, false) <= 10 * tolerance);
  if (statistics) CHECK(state_distance(mine.state, reference.state, true) <= 10 * tolerance);
}

}  // namespace

TEST_CASE("residual networks train under every strategy as one rank with the same microbatches",
          "[integration]") {
  constexpr int kImages = 2;
  const Layout layouts[] = {
      {.replicate = 2},
      {.replicate = 3, .accumulation = 2},
      {.shard = 2, .zero = 1},
      {.shard = 3, .zero = 2},
      {.shard = 3},
      {.replicate = 2, .shard = 2},
      {.pp = 2, .microbatches = 4},
      {.pp = 4, .microbatches = 4, .schedule = PipelineSchedule::GPipe},
      {.shard = 2, .pp = 2, .microbatches = 3},
      {.pp = 2, .microbatches = 4, .schedule = PipelineSchedule::ZbH1},
      {.shard = 2, .optimizer = OptimizerKind::AdamW},
  };
  for (const bool bottleneck : {false, true}) {
    for (const Layout& layout : layouts) {
      INFO("dp " << layout.replicate << "x" << layout.shard << " zero " << layout.zero << " pp "
                 << layout.pp << " bottleneck " << bottleneck);
      const Layout single{
          .accumulation = layout.ranks() * layout.microbatches * layout.accumulation,
          .optimizer = layout.optimizer};
      const RunResult mine = train(scenario_of(layout, kImages, bottleneck, DType::F64));
      const RunResult one = train(scenario_of(single, kImages, bottleneck, DType::F64));
      // Of several data-parallel ranks, the lowest one's statistics are of its own images.
      check_equal(mine, one, layout.ranks() == 1, 1e-11);
      CHECK(one.trace.steps.back().loss != one.trace.steps.front().loss);
    }
  }
}

TEST_CASE("with synchronized batch norm ranks equal one rank with all images at once",
          "[integration]") {
  const Layout layouts[] = {
      {.replicate = 2, .synchronized = true},
      {.replicate = 3, .synchronized = true},
      {.shard = 2, .synchronized = true},
      {.shard = 4, .zero = 2, .synchronized = true},
      {.replicate = 2, .shard = 2, .synchronized = true},
      {.shard = 2, .pp = 2, .synchronized = true},
  };
  for (const bool bottleneck : {false, true}) {
    for (const Layout& layout : layouts) {
      INFO("dp " << layout.replicate << "x" << layout.shard << " pp " << layout.pp << " bottleneck "
                 << bottleneck);
      const RunResult mine = train(scenario_of(layout, 2, bottleneck, DType::F64));
      const RunResult one = train(scenario_of({}, 2 * layout.ranks(), bottleneck, DType::F64));
      check_equal(mine, one, true, 1e-11);
    }
  }
  // The communications of a backward pass that is split in two.
  const Layout split{.shard = 2,
                     .pp = 2,
                     .microbatches = 3,
                     .schedule = PipelineSchedule::ZbH1,
                     .synchronized = true};
  check_equal(train(scenario_of(split, 2, true, DType::F64)),
              train(scenario_of({.shard = 2, .accumulation = 3, .synchronized = true}, 2, true,
                                DType::F64)),
              true, 1e-11);
  // Without, the same ranks train to something else.
  const RunResult local = train(scenario_of({.replicate = 3}, 2, false, DType::F64));
  const RunResult one = train(scenario_of({}, 6, false, DType::F64));
  CHECK(std::abs(local.trace.steps[0].loss - one.trace.steps[0].loss) > 1e-3);
}

TEST_CASE("residual networks whose blocks are divided over ranks train as one rank",
          "[integration]") {
  const Layout layouts[] = {
      {.tensor = 2},
      {.tensor = 4},
      {.shard = 3, .tensor = 2, .synchronized = true},
      {.replicate = 2, .tensor = 2, .pp = 2, .synchronized = true},
      {.tensor = 2, .pp = 2, .microbatches = 4, .schedule = PipelineSchedule::ZbH1},
      {.shard = 2, .tensor = 2, .zero = 1, .synchronized = true, .optimizer = OptimizerKind::AdamW},
  };
  for (const bool bottleneck : {false, true}) {
    for (const Layout& layout : layouts) {
      INFO("tp " << layout.tensor << " dp " << layout.replicate << "x" << layout.shard << " pp "
                 << layout.pp << " bottleneck " << bottleneck);
      const Layout single{.accumulation = layout.microbatches, .optimizer = layout.optimizer};
      const RunResult mine = train(scenario_of(layout, 2, bottleneck, DType::F64));
      const RunResult one = train(scenario_of(single, 2 * layout.ranks(), bottleneck, DType::F64));
      check_equal(mine, one, true, 1e-11);
    }
  }
}

TEST_CASE("a residual network's state, running statistics too, resumes in another layout",
          "[integration]") {
  const Scenario ddp = scenario_of({.replicate = 2, .synchronized = true}, 2, true, DType::F64);
  const Scenario fsdp =
      scenario_of({.shard = 2, .tensor = 2, .pp = 2, .synchronized = true}, 2, true, DType::F64);
  const RunResult whole = train(ddp);
  for (const auto& [from, to] : {std::pair(ddp, fsdp), std::pair(fsdp, ddp)}) {
    const RunResult half = train(from, kSteps / 2);
    REQUIRE(half.state.step == kSteps / 2);
    const RunResult resumed = train(to, kSteps / 2, &half.state);
    CHECK(state_distance(resumed.state, whole.state, false) <= 1e-11);
    CHECK(state_distance(resumed.state, whole.state, true) <= 1e-11);
  }
}

TEST_CASE("in float32 DDP's losses stay within 1e-5 of one rank's", "[integration]") {
  const RunResult mine = train(scenario_of({.replicate = 2}, 4, true, DType::F32));
  const RunResult one = train(scenario_of({.accumulation = 2}, 4, true, DType::F32));
  check_equal(mine, one, false, 1e-5);
}
