// Residual networks: every strategy equals one rank that takes the same microbatches, and with
// synchronized batch norm one rank that takes all images at once.
#include <algorithm>
#include <cmath>

#include "backends/backends.hpp"
#include "backends/cpu/cpu_backend.hpp"
#include "core/lower/lower.hpp"
#include "tests/catch.hpp"
#include "tests/integration/kernel_conformance.hpp"

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

test::Numbers values(const Tensor& tensor) { return test::decoded(tensor.data, tensor.dtype); }

/// Relative distance of the weights, and of the running statistics if `statistics`.
double state_distance(const TrainingState& a, const TrainingState& b, bool statistics) {
  double difference = 0, norm = 0;
  for (const auto& [name, tensor] : b.tensors) {
    if (name.starts_with("adam_")) continue;
    const bool running = name.find(".running_") != std::string::npos;
    REQUIRE(a.tensors.count(name) == 1);
    if (running != statistics) continue;
    const test::Numbers x = values(a.tensors.at(name)), y = values(tensor);
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

namespace {

/// Parameters and activations in bfloat16, a master copy and gradients in float32.
Scenario mixed(const Layout& layout, int images, PartDType buffers = PartDType::Default) {
  Scenario s = scenario_of(layout, images, true, DType::F32);
  s.training.mixed_precision_param = PartDType::BF16;
  s.training.mixed_precision_buffer = buffers;
  return s;
}

}  // namespace

TEST_CASE("in bfloat16 every strategy stays within 2e-2 of one rank in float32", "[integration]") {
  const Layout layouts[] = {
      {},
      {.replicate = 3, .synchronized = true},
      {.replicate = 2, .accumulation = 2, .synchronized = true},
      {.shard = 2, .zero = 1, .synchronized = true},
      {.shard = 3, .zero = 2, .synchronized = true},
      {.shard = 3, .synchronized = true},
      {.replicate = 2, .shard = 2, .synchronized = true},
      {.pp = 2, .microbatches = 4},
      {.shard = 2, .pp = 2, .microbatches = 3, .synchronized = true},
      {.pp = 2, .microbatches = 4, .schedule = PipelineSchedule::ZbH1},
      {.tensor = 2},
      {.shard = 2, .tensor = 2, .synchronized = true},
      {.shard = 2, .synchronized = true, .optimizer = OptimizerKind::AdamW},
  };
  for (const Layout& layout : layouts) {
    INFO("dp " << layout.replicate << "x" << layout.shard << " zero " << layout.zero << " tp "
               << layout.tensor << " pp " << layout.pp);
    const Layout single{.accumulation = layout.microbatches * layout.accumulation,
                        .optimizer = layout.optimizer};
    const Scenario s = mixed(layout, 4);
    const RunResult mine = train(s);
    const RunResult one = train(scenario_of(single, 4 * layout.ranks(), true, DType::F32));
    for (std::size_t step = 0; step < kSteps; ++step) {
      CHECK(std::abs(mine.trace.steps[step].loss - one.trace.steps[step].loss) <=
            2e-2 * one.trace.steps[step].loss);
    }
    CHECK(mine.trace.steps[1].loss != one.trace.steps[1].loss);  // it does round
    CHECK(state_distance(mine.state, one.state, false) <= 2e-2);
    CHECK(state_distance(mine.state, one.state, true) <= 4e-2);
    const auto simulated = (*make_backend("sim"))->run(*lower(s), s, {});
    if (!simulated) FAIL(to_string(simulated.error()));
    CHECK(simulated->trace.peak_memory == mine.trace.peak_memory);
    CHECK(simulated->trace.roles == mine.trace.roles);
  }
}

TEST_CASE("in bfloat16 replicas and every ZeRO stage agree to the last bit", "[integration]") {
  const auto same = [](const RunResult& a, const RunResult& b) {
    for (std::size_t step = 0; step < kSteps; ++step) {
      CHECK(a.trace.steps[step].loss == b.trace.steps[step].loss);
    }
    CHECK(a.state == b.state);
  };
  for (const bool synchronized : {false, true}) {
    const RunResult ddp = train(mixed({.replicate = 3, .synchronized = synchronized}, 2));
    for (const int zero : {1, 2, 3}) {
      INFO("ZeRO-" << zero << (synchronized ? ", synchronized" : ""));
      same(train(mixed({.shard = 3, .zero = zero, .synchronized = synchronized}, 2)), ddp);
    }
  }
}

TEST_CASE("running statistics in bfloat16 change nothing but themselves", "[integration]") {
  const Layout layout{.replicate = 2, .pp = 2, .microbatches = 2, .synchronized = true};
  const Scenario s = mixed(layout, 4, PartDType::BF16);
  const RunResult narrow = train(s);
  const RunResult wide = train(mixed(layout, 4));
  for (std::size_t step = 0; step < kSteps; ++step) {
    CHECK(narrow.trace.steps[step].loss == wide.trace.steps[step].loss);
  }
  CHECK(state_distance(narrow.state, wide.state, false) == 0);
  const double rounding = state_distance(narrow.state, wide.state, true);
  CHECK(rounding > 0);
  CHECK(rounding <= 1e-2);
  for (const auto& [name, tensor] : narrow.state.tensors) {
    const bool running = name.find(".running_") != std::string::npos;
    CHECK(tensor.dtype == (running ? DType::BF16 : DType::F32));
  }
  // And they resume, to the last bit.
  const RunResult half = train(s, kSteps / 2);
  CHECK(train(s, kSteps / 2, &half.state).state == narrow.state);
}
