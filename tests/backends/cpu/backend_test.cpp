#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.hpp"
#include "core/data/token_source.hpp"
#include "core/ir/verify/verify.hpp"
#include "core/run/initial_values.hpp"
#include "core/spec/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep {
namespace {

using testing::operand;

constexpr int kVocab = 13;
constexpr int kSeqLen = 8;
constexpr int kGlobalBatch = 6;
constexpr int kCells = kVocab * kVocab;

enum class Layout { Replicated, Sharded };

Scenario bigram_scenario(int ranks, Layout layout, DType dtype) {
  Scenario scenario;
  scenario.model.vocab = kVocab;
  scenario.training.seq_len = kSeqLen;
  scenario.training.local_batch_size = kGlobalBatch / ranks;
  scenario.training.steps = 6;
  scenario.training.dtype = dtype;
  scenario.optimizer.lr = 0.05;
  scenario.lr_scheduler.warmup_steps = 3;
  (layout == Layout::Sharded ? scenario.strategy.data_parallel_shard_degree
                             : scenario.strategy.data_parallel_replicate_degree) = ranks;
  return scenario;
}

Kernel kernel(KernelKind kind, DType dtype, std::vector<std::int64_t> dims,
              std::vector<double> scalars, std::vector<Operand> in, std::vector<Operand> out) {
  Kernel k;
  k.kind = kind;
  k.dtype = dtype;
  std::copy(dims.begin(), dims.end(), k.dims.begin());
  std::copy(scalars.begin(), scalars.end(), k.scalars.begin());
  k.in = std::move(in);
  k.out = std::move(out);
  return k;
}

/// Adds a function for the gradient of the mean cross-entropy of a bigram model whose logits are
/// rows of one table.
std::int32_t add_bigram(Program& program, int rows, std::int64_t cells, DType t) {
  const std::int64_t size = size_of(t);
  Kernel backward = kernel(KernelKind::EmbeddingBackward, t, {rows, kVocab, kSeqLen, kVocab}, {},
                           {operand(0, DType::I32), operand(3, t)}, {operand(5, t)});
  backward.accumulate = true;
  return testing::add_function(
      program, "bigram.FB",
      {{"tokens", Access::Read, {rows * 4}},
       {"targets", Access::Read, {rows * 4}},
       {"table", Access::Read, {kCells * size}},
       {"logits", Access::Write, {rows * kVocab * size}},
       {"loss", Access::Write, {size}},
       {"grad", Access::Write, {cells * size}}},
      {kernel(KernelKind::EmbeddingForward, t, {rows, kVocab, kSeqLen, kVocab}, {},
              {operand(0, DType::I32), operand(2, t)}, {operand(3, t)}),
       kernel(KernelKind::CrossEntropy, t, {rows, kVocab}, {1.0 / (kGlobalBatch * kSeqLen)},
              {operand(3, t), operand(1, DType::I32)}, {operand(3, t), operand(4, t)}),
       kernel(KernelKind::Fill, t, {cells}, {0.0}, {}, {operand(5, t)}), backward});
}

std::int32_t add_adamw(Program& program, std::int64_t n, const OptimizerSpec& o, DType t) {
  const std::int64_t bytes = n * size_of(t);
  return testing::add_function(
      program, "adamw",
      {{"grad", Access::Read, {bytes}},
       {"w", Access::ReadWrite, {bytes}},
       {"m", Access::ReadWrite, {bytes}},
       {"v", Access::ReadWrite, {bytes}}},
      {kernel(KernelKind::AdamW, t, {n}, {o.beta1, o.beta2, o.eps, o.weight_decay}, {operand(0, t)},
              {operand(1, t), operand(2, t), operand(3, t)})});
}

Program bigram_program(const Scenario& scenario, Layout layout) {
  const int ranks = scenario.strategy.data_parallel_degree();
  const bool sharded = layout == Layout::Sharded;
  const DType t = scenario.training.dtype;
  Program program = testing::program_of(sharded ? "dp_shard" : "dp_replicate", ranks);
  program.dtype = t;
  program.parameters = {{"table", {kVocab, kVocab}, InitKind::Normal, 0.7}};
  const int rows = scenario.training.local_batch_size * kSeqLen;
  const std::int64_t owned = sharded ? ceil_div(kCells, ranks) : kCells;
  const std::int64_t cells = sharded ? owned * ranks : kCells;
  const std::int32_t bigram = add_bigram(program, rows, cells, t);
  const std::int32_t adamw = add_adamw(program, owned, scenario.optimizer, t);

  testing::RoleBuilder role;
  Unit unit;
  unit.name = "table";
  unit.parameters = {{{0}, 0, {}}};
  unit.elements = kCells;
  unit.shard_elements = owned;
  if (sharded) unit.shard_group = {0};
  unit.states[StateKind::Param] = role.buffer(BufferKind::Param, t, owned, true);
  unit.states[StateKind::Moment1] = role.buffer(BufferKind::Optimizer, t, owned, true);
  unit.states[StateKind::Moment2] = role.buffer(BufferKind::Optimizer, t, owned, true);
  role.unit(unit);
  const BufferId tokens = role.buffer(BufferKind::Input, DType::I32, rows);
  const BufferId targets = role.buffer(BufferKind::Input, DType::I32, rows);
  const BufferId logits = role.buffer(BufferKind::Activation, t, rows * kVocab);
  const BufferId loss = role.buffer(BufferKind::Metric, t, 1);
  const BufferId grad = role.buffer(BufferKind::Grad, t, cells);
  BufferId table = unit.param(), own_grad = grad;
  std::vector<OpId> inputs = {role.copy(OpKind::HostToDevice, HostData::Tokens, tokens, {}, 0),
                              role.copy(OpKind::HostToDevice, HostData::Targets, targets, {}, 0)};
  if (sharded) {
    table = role.buffer(BufferKind::ParamFull, t, cells);
    own_grad = role.buffer(BufferKind::Grad, t, owned);
    inputs.push_back(role.op(OpKind::AllGather, Stream::Gather, 0, {unit.param(), table}));
  }
  const OpId backward = role.op(OpKind::Call, Stream::Compute, bigram,
                                {tokens, targets, table, logits, loss, grad}, inputs);
  const OpId reduced =
      sharded ? role.op(OpKind::ReduceScatter, Stream::Reduce, 0, {grad, own_grad}, {backward})
              : role.op(OpKind::AllReduce, Stream::Reduce, 0, {grad}, {backward});
  const OpId loss_reduced = role.op(OpKind::AllReduce, Stream::Reduce, 0, {loss}, {backward});
  role.op(
      OpKind::Call, Stream::Compute, adamw,
      {own_grad, unit.param(), unit.states[StateKind::Moment1], unit.states[StateKind::Moment2]},
      {reduced});
  role.copy(OpKind::DeviceToHost, HostData::Loss, loss, {loss_reduced});
  program.roles.push_back(role.finish(testing::all_ranks(program)));
  program.tokens_per_step = kGlobalBatch * kSeqLen;
  program.training.seed = scenario.training.seed;
  program.training.learning_rate = scenario.learning_rate();
  Samples& samples = program.input.samples;
  samples.kind = SampleKind::Tokens;
  samples.length = kSeqLen;
  samples.classes = kVocab;
  samples.per_step = kGlobalBatch;
  samples.microbatch = kGlobalBatch / ranks;
  samples.over = {0};
  return program;
}

RunResult train(int ranks, Layout layout, DType dtype, RunOptions options,
                const ExecutorOptions& executor = {.poison = true}, int threads = 1) {
  const Scenario scenario = bigram_scenario(ranks, layout, dtype);
  const Program program = bigram_program(scenario, layout);
  options.return_state = true;
  auto result = make_cpu_backend(executor, threads)->run(program, scenario.cluster, options);
  if (!result) FAIL(to_string(result.error()));
  return std::move(*result);
}

RunOptions steps(int n) {
  RunOptions options;
  options.steps = n;
  return options;
}

std::vector<double> losses(const RunResult& result) {
  std::vector<double> list;
  for (const StepResult& step : result.trace.steps) list.push_back(step.loss);
  return list;
}

/// The same training in plain loops: softmax regression of the next token on the current one.
std::vector<double> plain_losses(int num_steps) {
  const Scenario s = bigram_scenario(1, Layout::Replicated, DType::F64);
  const auto source = open_token_source("", kSeqLen, kVocab, s.training.seed);
  const InitialValues initial({"table", {kVocab, kVocab}, InitKind::Normal, 0.7}, s.training.seed);
  std::array<double, kCells> w{}, m{}, v{};
  for (int i = 0; i < kCells; ++i) w[i] = initial[i];
  std::vector<double> result;
  for (int step = 0; step < num_steps; ++step) {
    std::array<double, kCells> g{};
    double loss = 0;
    for (int row = 0; row < kGlobalBatch; ++row) {
      std::vector<std::int32_t> x(kSeqLen), y(kSeqLen);
      (*source)->fill(step * kGlobalBatch + row, x, y);
      for (std::size_t t = 0; t < kSeqLen; ++t) {
        const std::size_t base = to_size(x[t]) * kVocab;
        double total = 0;
        for (std::size_t c = 0; c < kVocab; ++c) total += std::exp(w[base + c]);
        loss -= w[base + to_size(y[t])] - std::log(total);
        for (std::size_t c = 0; c < kVocab; ++c) {
          const double p = std::exp(w[base + c]) / total;
          g[base + c] += (p - (c == to_size(y[t]) ? 1 : 0)) / (kGlobalBatch * kSeqLen);
        }
      }
    }
    result.push_back(loss / (kGlobalBatch * kSeqLen));
    const OptimizerSpec& o = s.optimizer;
    const double lr = learning_rate(o, s.lr_scheduler, s.training.steps).at(step);
    for (std::size_t i = 0; i < kCells; ++i) {
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      const double mhat = m[i] / (1 - std::pow(o.beta1, step + 1));
      const double vhat = v[i] / (1 - std::pow(o.beta2, step + 1));
      w[i] -= lr * (mhat / (std::sqrt(vhat) + o.eps) + o.weight_decay * w[i]);
    }
  }
  return result;
}

void check_close(const std::vector<double>& a, const std::vector<double>& b, double relative) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(std::abs(a[i] - b[i]) <= relative * std::abs(b[i]));
  }
}

}  // namespace

TEST_CASE("the hand-built bigram programs pass the verifier", "[backends][cpu]") {
  for (const Layout layout : {Layout::Replicated, Layout::Sharded}) {
    for (const int ranks : {1, 2, 3}) {
      const Scenario scenario = bigram_scenario(ranks, layout, DType::F32);
      const auto errors = verify(bigram_program(scenario, layout));
      CHECK(errors.empty());
      for (const Error& error : errors) UNSCOPED_INFO(error.message);
    }
  }
}

TEST_CASE("a bigram model trains like plain loops in every layout", "[backends][cpu]") {
  const std::vector<double> expected = plain_losses(6);
  CHECK(expected.back() < expected.front());
  for (const int ranks : {1, 2, 3}) {
    for (const Layout layout : {Layout::Replicated, Layout::Sharded}) {
      check_close(losses(train(ranks, layout, DType::F64, steps(6))), expected, 1e-12);
      check_close(losses(train(ranks, layout, DType::F32, steps(6))), expected, 1e-5);
    }
  }
}

TEST_CASE("replicated and sharded training, repeated runs and thread counts agree bit for bit",
          "[backends][cpu]") {
  const RunResult first = train(2, Layout::Replicated, DType::F32, steps(6));
  const RunResult sharded = train(2, Layout::Sharded, DType::F32, steps(6));
  const RunResult again = train(2, Layout::Replicated, DType::F32, steps(6), {.poison = false});
  const RunResult threaded =
      train(2, Layout::Replicated, DType::F32, steps(6), {.poison = true}, 3);
  for (const RunResult* other : {&sharded, &again, &threaded}) {
    CHECK(losses(*other) == losses(first));
    CHECK(other->state == first.state);
  }
}

TEST_CASE("training resumed from its state in another layout continues bit for bit",
          "[backends][cpu]") {
  const RunResult whole = train(2, Layout::Replicated, DType::F32, steps(6));
  const RunResult half = train(2, Layout::Replicated, DType::F32, steps(3));
  CHECK(half.state.step == 3);
  RunOptions rest = steps(3);
  rest.initial_state = &half.state;
  const RunResult resumed = train(2, Layout::Sharded, DType::F32, rest);
  CHECK(resumed.state == whole.state);
  CHECK(resumed.trace.steps.front().step == 3);
  const std::vector<double> all = losses(whole);
  CHECK(losses(resumed) == std::vector<double>(all.begin() + 3, all.end()));
}

TEST_CASE("the trace has a span of every op of every rank and the bytes really allocated",
          "[backends][cpu]") {
  const RunResult result = train(3, Layout::Sharded, DType::F32, steps(2));
  const Program program =
      bigram_program(bigram_scenario(3, Layout::Sharded, DType::F32), Layout::Sharded);
  const Trace& trace = result.trace;
  CHECK(trace.backend == "cpu");
  CHECK(trace.peak_memory == std::vector<std::int64_t>(3, program.roles[0].arena.v));
  REQUIRE(trace.spans.size() == 3 * program.roles[0].ops.size());
  std::vector<IndexVector<OpId, Span>> by_rank(
      3, IndexVector<OpId, Span>(program.roles[0].ops.size()));
  for (const Span& span : trace.spans) {
    CHECK(span.step == 0);
    CHECK(span.begin >= SimTime{0});
    CHECK(span.begin <= span.active);
    CHECK(span.active <= span.end);
    by_rank[span.rank][span.op] = span;
  }
  const Role& role = program.roles[0];
  for (const auto& spans : by_rank) {
    for (std::size_t i = 0; i < spans.size(); ++i) {
      CHECK(spans[i].op.v == static_cast<int>(i));
      for (const OpId before : role.after_of(role.ops[i])) {
        CHECK(spans[before].end <= spans[i].begin);
      }
      if (is_collective(role.ops[i].kind)) CHECK(spans[i].active == by_rank[0][i].active);
    }
  }
}

TEST_CASE("a loss that is not a number is reported and does not end the run", "[backends][cpu]") {
  RunResult start = train(2, Layout::Replicated, DType::F32, steps(1));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < kCells; ++i) {
    std::memcpy(start.state.tensors["table"].data.data() + 4 * i, &nan, 4);
  }
  RunOptions options = steps(2);
  options.initial_state = &start.state;
  for (const double loss : losses(train(2, Layout::Sharded, DType::F32, options))) {
    CHECK(std::isnan(loss));
  }
}

TEST_CASE("faults of the user's are named before anything runs", "[backends][cpu]") {
  Scenario scenario = bigram_scenario(1, Layout::Replicated, DType::F32);
  const Program program = bigram_program(scenario, Layout::Replicated);
  RunOptions options = steps(1);
  options.dataset = "/nowhere/no-such-text";
  const auto missing = make_cpu_backend()->run(program, scenario.cluster, options);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().kind == ErrorKind::InvalidSpec);
  CHECK_THAT(missing.error().message, ContainsSubstring("/nowhere/no-such-text"));

  scenario = bigram_scenario(1, Layout::Replicated, DType::F16);
  const auto f16 = make_cpu_backend()->run(bigram_program(scenario, Layout::Replicated),
                                           scenario.cluster, steps(1));
  REQUIRE_FALSE(f16.ok());
  CHECK(f16.error().kind == ErrorKind::Unsupported);
  CHECK_THAT(f16.error().message, ContainsSubstring("float16"));
}

}  // namespace lockstep
