// The promise of the project: one program, simulated and trained; every strategy equal to one rank.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "backends/backends.hpp"
#include "backends/cpu/cpu_backend.hpp"
#include "core/ir/text.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::Layout;

namespace {

struct Case {
  const char* name;
  Layout layout;
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  int virtual_stages = 1;
  int layers = 4;
  int zero_stage = 3;
  std::int64_t persistence_threshold = 0;
  bool accumulate_sharded = false;
  int max_active_stages = 3;
  int reshard_degree = 0;
};

Case zero(int stage, Case c) {
  c.zero_stage = stage;
  return c;
}
Case in_shards(Case c) {
  c.accumulate_sharded = true;
  return c;
}
Case resharded_to_2(Case c) {
  c.reshard_degree = 2;
  return c;
}
Case one_stage_gathered(Case c) {
  c.max_active_stages = 1;
  return c;
}
Case small_units_whole(Case c) {
  c.persistence_threshold = 1700;
  return c;
}

// Every strategy alone, pairs of them, and gradient accumulation, on a global batch that all of
// them divide.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"single rank", {}},
      {"single rank, 4 microbatches", {1, 1, 1, 1, 4}},
      {"DDP 2", {2}},
      {"DDP 4", {4}},
      {"DDP 3, 2 microbatches", {3, 1, 1, 1, 2}},
      {"FSDP 2", {1, 2}},
      {"FSDP 4", {1, 4}},
      {"FSDP 3", {1, 3}},
      {"FSDP 2, 3 microbatches", {1, 2, 1, 1, 3}},
      {"GPipe 2", {1, 1, 2, 4}, PipelineSchedule::GPipe},
      {"GPipe 4", {1, 1, 4, 4}, PipelineSchedule::GPipe},
      {"1F1B 2", {1, 1, 2, 4}},
      {"1F1B 4", {1, 1, 4, 4}},
      {"1F1B 4, 3 microbatches", {1, 1, 4, 3}},
      {"DDP 2 x 1F1B 2", {2, 1, 2, 3}},
      {"FSDP 2 x 1F1B 2", {1, 2, 2, 3}},
      {"FSDP 2 x GPipe 2", {1, 2, 2, 3}, PipelineSchedule::GPipe},
      {"HSDP 2x2", {2, 2}},
      {"HSDP 3x2", {3, 2}},
      {"HSDP 2x3, 2 microbatches", {2, 3, 1, 1, 2}},
      {"HSDP 2x2 x 1F1B 2", {2, 2, 2, 3}},
      zero(0, {"ZeRO-0 2x2", {2, 2}}),
      zero(1, {"ZeRO-1 2", {1, 2}}),
      zero(1, {"ZeRO-1 3", {1, 3}}),
      zero(1, {"ZeRO-1 2, 3 microbatches", {1, 2, 1, 1, 3}}),
      zero(1, {"ZeRO-1 2 x 1F1B 2", {1, 2, 2, 3}}),
      zero(1, {"ZeRO-1 2x2", {2, 2}}),
      zero(2, {"ZeRO-2 2", {1, 2}}),
      zero(2, {"ZeRO-2 3", {1, 3}}),
      zero(2, {"ZeRO-2 3, 2 microbatches", {1, 3, 1, 1, 2}}),
      zero(2, {"ZeRO-2 2 x 1F1B 2", {1, 2, 2, 3}}),
      zero(2, {"ZeRO-2 2x2", {2, 2}}),
      small_units_whole({"FSDP 3, small units whole", {1, 3}}),
      small_units_whole(
          {"HSDP 2x2 x GPipe 2, small units whole", {2, 2, 2, 3}, PipelineSchedule::GPipe}),
      in_shards({"FSDP 2, 3 microbatches in shards", {1, 2, 1, 1, 3}}),
      in_shards(zero(2, {"ZeRO-2 3, 2 microbatches in shards", {1, 3, 1, 1, 2}})),
      in_shards({"HSDP 2x2 x 1F1B 2, in shards", {2, 2, 2, 3}}),
      in_shards({"FSDP 2 x GPipe 2, in shards", {1, 2, 2, 3}, PipelineSchedule::GPipe}),
      in_shards({"FSDP 2 x ZBV 2, in shards", {1, 2, 2, 3}, PipelineSchedule::ZbvZeroBubble, 2}),
      one_stage_gathered({"FSDP 2 x Interleaved1F1B 2, one stage gathered",
                          {1, 2, 2, 6},
                          PipelineSchedule::Interleaved1F1B,
                          2}),
      one_stage_gathered({"HSDP 2x2 x ZBV 2, one stage gathered",
                          {2, 2, 2, 3},
                          PipelineSchedule::ZbvZeroBubble,
                          2}),
      resharded_to_2({"FSDP 4, resharded to 2", {1, 4}}),
      resharded_to_2({"FSDP 4, resharded to 2, 3 microbatches", {1, 4, 1, 1, 3}}),
      resharded_to_2(one_stage_gathered({"FSDP 4 x Interleaved1F1B 2, resharded to 2",
                                         {1, 4, 2, 3},
                                         PipelineSchedule::Interleaved1F1B,
                                         2})),
      zero(1, {"ZeRO-1 2 x ZB-H1 2", {1, 2, 2, 3}, PipelineSchedule::ZbH1}),
      zero(2, {"ZeRO-2 2 x Interleaved1F1B 2", {1, 2, 2, 6}, PipelineSchedule::Interleaved1F1B, 2}),
      zero(1, {"ZeRO-1 2 x DualPipeV 2", {1, 2, 2, 6}, PipelineSchedule::DualPipeV, 2}),
      {"Interleaved1F1B 2", {1, 1, 2, 4}, PipelineSchedule::Interleaved1F1B, 2},
      {"Interleaved1F1B 4", {1, 1, 4, 6}, PipelineSchedule::Interleaved1F1B, 2, 8},
      {"LoopedBFS 2", {1, 1, 2, 4}, PipelineSchedule::LoopedBFS, 2},
      {"LoopedBFS 3", {1, 1, 3, 4}, PipelineSchedule::LoopedBFS, 2, 8},
      {"ZB-H1 2", {1, 1, 2, 3}, PipelineSchedule::ZbH1},
      {"ZB-H1 4", {1, 1, 4, 6}, PipelineSchedule::ZbH1},
      {"ZB-H2 3", {1, 1, 3, 6}, PipelineSchedule::ZbH2},
      {"ZB-1p 4", {1, 1, 4, 6}, PipelineSchedule::Zb1p},
      {"ZB-2p 3", {1, 1, 3, 6}, PipelineSchedule::Zb2p},
      {"FSDP 2 x ZB-2p 2", {1, 2, 2, 6}, PipelineSchedule::Zb2p},
      {"InterleavedZeroBubble 2", {1, 1, 2, 4}, PipelineSchedule::InterleavedZeroBubble, 2},
      {"InterleavedZeroBubble 4", {1, 1, 4, 4}, PipelineSchedule::InterleavedZeroBubble, 2, 8},
      {"ZBV 1", {1, 1, 1, 3}, PipelineSchedule::ZbvZeroBubble, 2},
      {"ZBV 2", {1, 1, 2, 3}, PipelineSchedule::ZbvZeroBubble, 2},
      {"ZBV 3", {1, 1, 3, 6}, PipelineSchedule::ZbvZeroBubble, 2, 8},
      {"ZBV 4", {1, 1, 4, 4}, PipelineSchedule::ZbvZeroBubble, 2, 8},
      {"DualPipeV 2", {1, 1, 2, 4}, PipelineSchedule::DualPipeV, 2},
      {"DualPipeV 4", {1, 1, 4, 12}, PipelineSchedule::DualPipeV, 2, 8},
      {"DDP 2 x Interleaved1F1B 2", {2, 1, 2, 6}, PipelineSchedule::Interleaved1F1B, 2},
      {"FSDP 2 x Interleaved1F1B 2", {1, 2, 2, 3}, PipelineSchedule::Interleaved1F1B, 2},
      {"DDP 2 x LoopedBFS 2", {2, 1, 2, 3}, PipelineSchedule::LoopedBFS, 2},
      {"FSDP 2 x LoopedBFS 2", {1, 2, 2, 3}, PipelineSchedule::LoopedBFS, 2},
      {"DDP 2 x ZB-H1 2", {2, 1, 2, 3}, PipelineSchedule::ZbH1},
      {"FSDP 2 x ZB-H1 2", {1, 2, 2, 3}, PipelineSchedule::ZbH1},
      {"FSDP 3 x ZB-H2 2", {1, 3, 2, 4}, PipelineSchedule::ZbH2},
      {"DDP 2 x ZBV 2", {2, 1, 2, 3}, PipelineSchedule::ZbvZeroBubble, 2},
      {"FSDP 2 x ZBV 2", {1, 2, 2, 6}, PipelineSchedule::ZbvZeroBubble, 2},
      {"FSDP 2 x InterleavedZeroBubble 2",
       {1, 2, 2, 6},
       PipelineSchedule::InterleavedZeroBubble,
       2},
      {"FSDP 2 x DualPipeV 2", {1, 2, 2, 6}, PipelineSchedule::DualPipeV, 2},
      {"HSDP 2x2 x Interleaved1F1B 2", {2, 2, 2, 3}, PipelineSchedule::Interleaved1F1B, 2},
      zero(1, {"ZeRO-1 2 x ZBV 2", {1, 2, 2, 3}, PipelineSchedule::ZbvZeroBubble, 2}),
      zero(2, {"ZeRO-2 2 x ZB-H1 2", {1, 2, 2, 3}, PipelineSchedule::ZbH1}),
  };
  return all;
}

constexpr int kGlobalBatch = 12;
constexpr int kSteps = 10;

Scenario scenario(Architecture architecture, const Case& c, DType dtype) {
  const int ranks_and_passes = c.layout.replicate * c.layout.shard * c.layout.accumulation;
  Scenario s = test::tiny_scenario(architecture, c.layout,
                                   kGlobalBatch / ranks_and_passes / c.layout.microbatches);
  s.model.layers = c.layers;
  s.training.dtype = dtype;
  s.training.steps = kSteps;
  s.training.max_norm = 0.5;  // clips from the first step on
  s.optimizer.lr = 1e-2;
  s.lr_scheduler.warmup_steps = 3;
  s.lr_scheduler.decay_ratio = 0.4;
  s.strategy.pipeline_parallel_schedule = c.schedule;
  s.strategy.zero_stage = c.zero_stage;
  s.strategy.fsdp_persistence_threshold = c.persistence_threshold;
  s.strategy.accumulate_sharded_gradients = c.accumulate_sharded;
  s.strategy.fsdp_max_active_stages = c.max_active_stages;
  s.strategy.fsdp_reshard_degree = c.reshard_degree;
  s.strategy.pipeline_parallel_virtual_stages = c.virtual_stages;
  s.strategy.bucket_cap = Bytes{8000};  // several buckets
  s.strategy.first_bucket_cap = Bytes{1000};
  return s;
}

struct Outcome {
  Program program;
  RunResult run;
};

Outcome train(const Scenario& s) {
  REQUIRE(validate(s).empty());
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  // Poisoned arenas: what is read before it is written is NaN, and so is all that follows.
  const auto backend = make_cpu_backend({.poison = true});
  RunOptions options;
  options.steps = kSteps;
  options.return_state = true;
  auto run = backend->run(*program, s, options);
  if (!run) FAIL(to_string(run.error()));
  REQUIRE(run->trace.steps.size() == kSteps);
  return {std::move(*program), std::move(*run)};
}

RunResult simulate(const Program& program, const Scenario& s) {
  auto backend = make_backend("sim");
  REQUIRE(backend.ok());
  auto run = (*backend)->run(program, s, {});
  if (!run) FAIL(to_string(run.error()));
  return std::move(*run);
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> out;
  const std::size_t element = static_cast<std::size_t>(size_of(tensor.dtype));
  for (std::size_t i = 0; i < tensor.data.size(); i += element) {
    if (tensor.dtype == DType::F64) {
      double v;
      std::memcpy(&v, &tensor.data[i], sizeof v);
      out.push_back(v);
    } else {
      float v;
      std::memcpy(&v, &tensor.data[i], sizeof v);
      out.push_back(v);
    }
  }
  return out;
}

/// Largest |a - b| / |b| of the norms, over all weights together.
double weight_distance(const TrainingState& a, const TrainingState& b) {
  REQUIRE(a.tensors.size() == b.tensors.size());
  double difference = 0;
  double norm = 0;
  for (const auto& [name, tensor] : b.tensors) {
    if (name.rfind("adam_", 0) == 0) continue;
    REQUIRE(a.tensors.count(name) == 1);
    const std::vector<double> x = values(a.tensors.at(name));
    const std::vector<double> y = values(tensor);
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      norm += y[i] * y[i];
    }
  }
  return std::sqrt(difference / norm);
}

void check_parity(Architecture architecture, DType dtype, double loss_tolerance,
                  double weight_tolerance) {
  std::map<int, Outcome> references;  // one rank, by layers
  for (const Case& c : cases()) {
    INFO(c.name);
    if (references.count(c.layers) == 0) {
      Case single = cases()[0];
      single.layers = c.layers;
      references.emplace(c.layers, train(scenario(architecture, single, dtype)));
    }
    const Outcome& reference = references.at(c.layers);
    CHECK(reference.run.trace.steps.back().loss < reference.run.trace.steps.front().loss);
    const Outcome outcome = train(scenario(architecture, c, dtype));
    for (int step = 0; step < kSteps; ++step) {
      const StepResult& mine = outcome.run.trace.steps[static_cast<std::size_t>(step)];
      const StepResult& theirs = reference.run.trace.steps[static_cast<std::size_t>(step)];
      CHECK(std::abs(mine.loss - theirs.loss) <= loss_tolerance * std::abs(theirs.loss));
      CHECK(std::abs(mine.grad_norm - theirs.grad_norm) <= 20 * loss_tolerance * theirs.grad_norm);
      CHECK(mine.lr == theirs.lr);
    }
    CHECK(weight_distance(outcome.run.state, reference.run.state) <= weight_tolerance);
  }
}

}  // namespace

TEST_CASE("every strategy equals one rank in float64 to 1e-11", "[integration]") {
  check_parity(Architecture::Gpt2, DType::F64, 1e-11, 1e-11);
  check_parity(Architecture::Llama, DType::F64, 1e-11, 1e-11);
}

TEST_CASE("every strategy equals one rank in float32: losses 1e-5, weights 1e-4", "[integration]") {
  check_parity(Architecture::Gpt2, DType::F32, 1e-5, 1e-4);
  check_parity(Architecture::Llama, DType::F32, 1e-5, 1e-4);
}

namespace {

/// Losses, norms and the whole training state, to the last bit.
void check_same_bits(const Outcome& a, const Outcome& b) {
  CHECK(a.run.state == b.run.state);
  for (std::size_t step = 0; step < kSteps; ++step) {
    CHECK(a.run.trace.steps[step].loss == b.run.trace.steps[step].loss);
    CHECK(a.run.trace.steps[step].grad_norm == b.run.trace.steps[step].grad_norm);
  }
}

}  // namespace

TEST_CASE("one configuration twice, and DDP and every ZeRO stage, agree to the last bit",
          "[integration]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const Layout& layout :
         {Layout{1, 2}, Layout{1, 3}, Layout{1, 4}, Layout{1, 2, 2, 3}, Layout{1, 3, 1, 1, 2}}) {
      INFO(layout.shard << " ranks, pipeline " << layout.pp);
      Layout replicas = layout;
      std::swap(replicas.replicate, replicas.shard);
      const auto run = [&](const Case& c) { return train(scenario(architecture, c, DType::F32)); };
      const Outcome ddp = run({"DDP", replicas});
      check_same_bits(ddp, run({"DDP again", replicas}));
      for (int stage : {0, 1, 2, 3}) {
        INFO("ZeRO-" << stage);
        check_same_bits(ddp, run(zero(stage, {"ZeRO", layout})));
      }
      check_same_bits(ddp, run(small_units_whole({"FSDP, small units whole", layout})));
      if (layout.shard % 2 == 0) {
        check_same_bits(ddp, run(resharded_to_2({"FSDP, resharded to 2", layout})));
      }
    }
  }
}

TEST_CASE("the ZeRO stages agree to the last bit with replicas of the shards, too",
          "[integration]") {
  // The sums are of another order than over four replicas: first within, then across.
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    const auto run = [&](int stage) {
      return train(scenario(architecture, zero(stage, {"", {2, 2}}), DType::F32));
    };
    const Outcome hybrid = run(3);
    for (int stage : {1, 2}) check_same_bits(hybrid, run(stage));
  }
}

TEST_CASE("sim and cpu run the same ops in the same order with the same bytes", "[integration]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const Case& c : cases()) {
      INFO(c.name);
      const Scenario s = scenario(architecture, c, DType::F32);
      const Outcome real = train(s);
      const RunResult sim = simulate(real.program, s);
      CHECK(sim.trace.program_hash == real.run.trace.program_hash);
      CHECK(sim.trace.peak_memory == real.run.trace.peak_memory);
      CHECK(sim.trace.roles == real.run.trace.roles);
      // Per rank and stream: the same ops, in the same order.
      const auto order = [](const Trace& trace, Rank rank) {
        std::vector<std::vector<OpId>> streams(kNumStreams);
        const Rank shown = trace.same_as[static_cast<std::size_t>(rank)];
        const auto role =
            static_cast<std::size_t>(trace.role_of_rank[static_cast<std::size_t>(shown)]);
        int step = -1;
        for (const Span& span : trace.spans) {
          if (span.rank != shown) continue;
          if (step < 0) step = span.step;
          if (span.step != step) continue;
          const TraceOp& op = trace.roles[role].ops[static_cast<std::size_t>(span.op.v)];
          streams[op.stream].push_back(span.op);
        }
        return streams;
      };
      for (Rank rank = 0; rank < real.program.mesh.world_size(); ++rank) {
        CHECK(order(sim.trace, rank) == order(real.run.trace, rank));
      }
    }
  }
}

TEST_CASE("training resumes where another layout stopped", "[integration]") {
  // Six steps on DDP 2, then four on FSDP 3 or ZeRO-1 3 from its state, against ten on one rank.
  const Outcome reference = train(scenario(Architecture::Gpt2, cases()[0], DType::F64));
  const auto part = [&](const Case& c, int steps, const TrainingState* from) {
    const Scenario s = scenario(Architecture::Gpt2, c, DType::F64);
    auto program = lower(s);
    REQUIRE(program.ok());
    auto backend = make_backend("cpu");
    RunOptions options;
    options.steps = steps;
    options.return_state = true;
    options.initial_state = from;
    auto run = (*backend)->run(*program, s, options);
    if (!run) FAIL(to_string(run.error()));
    return std::move(run->state);
  };
  const TrainingState first = part({"DDP 2", {2}}, 6, nullptr);
  CHECK(first.step == 6);
  const TrainingState second = part({"FSDP 3", {1, 3}}, 4, &first);
  CHECK(second.step == 10);
  CHECK(weight_distance(second, reference.run.state) <= 1e-11);
  const TrainingState third = part(zero(1, {"ZeRO-1 3", {1, 3}}), 4, &first);
  CHECK(weight_distance(third, reference.run.state) <= 1e-11);
  CHECK(third == second);
}
