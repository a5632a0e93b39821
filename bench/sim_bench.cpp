// Measures how fast the simulator runs, and how much memory program and engine take per op. The
// argument is the number of ops.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <utility>

#include "backends/sim/engine.hpp"
#include "core/lower/lower.hpp"
#include "tests/backends/sim/programs.hpp"

namespace lockstep {
namespace {

using namespace sim_test;  // NOLINT: the builders are this file's vocabulary

ClusterSpec cluster() {
  ClusterSpec c;
  c.devices_per_node = 8;
  c.nodes = 1024;
  c.intra_node = {{450e9}, {3e-6}};
  c.inter_node = {{50e9}, {8e-6}};
  return c;
}

std::int64_t bytes_of(const Role& role) {
  return static_cast<std::int64_t>(
      role.ops.size() * sizeof(Op) + role.buffers.size() * sizeof(Buffer) +
      role.after.size() * sizeof(OpId) + role.args.size() * sizeof(BufferId));
}

/// The bytes of program and engine together per simulated op: lists, times, order and sequence
/// numbers.
double bytes_per_op(const Program& program, const sim::Timeline& timeline) {
  std::int64_t bytes = 0;
  for (const Role& role : program.roles) {
    bytes += bytes_of(role);
    const bool collectives = std::any_of(role.ops.begin(), role.ops.end(),
                                         [](const Op& op) { return is_collective(op.kind); });
    bytes += static_cast<std::int64_t>(role.ops.size() * (collectives ? 2 : 1) * 4);
  }
  bytes += timeline.num_ops * static_cast<std::int64_t>(sizeof(sim::OpTiming));
  return static_cast<double>(bytes) / static_cast<double>(timeline.num_ops);
}

void simulate_program(benchmark::State& state, Program program, const ClusterSpec& spec) {
  for (Role& role : program.roles) {
    role.ops.shrink_to_fit();
    role.after.shrink_to_fit();
    role.args.shrink_to_fit();
  }
  std::int64_t ops = 0;
  double per_op = 0;
  for (auto _ : state) {
    const auto timeline = sim::simulate(program, spec);
    if (!timeline) {
      state.SkipWithError(timeline.error().message.c_str());
      return;
    }
    ops += timeline->num_ops;
    per_op = bytes_per_op(program, *timeline);
  }
  state.SetItemsProcessed(ops);
  state.counters["bytes_per_op"] = per_op;
}

/// 1F1B over 8 stages with given latencies; a third of the ops are calls, the others messages.
void pipeline(benchmark::State& state) {
  const int p = 8;
  const int m = static_cast<int>(state.range(0) / (6 * p - 4));
  simulate_program(state, make_pipeline({Order::OneFOneB, p, m, 16, 10e-3, 20e-3, 1e-3}),
                   cluster());
}
BENCHMARK(pipeline)->Arg(10'000)->Arg(1'000'000)->Arg(10'000'000)->Unit(benchmark::kMillisecond);

/// One FSDP step over layers, folded to one rank: a gather one ahead of every call, a
/// reduce-scatter behind every backward.
void fsdp(benchmark::State& state) {
  Program program = make_mesh_program(1, 64);
  program.functions = {delay("block.F", 3e-3), delay("block.B", 6e-3)};
  RoleBuilder role(program.roles[0]);
  const BufferId unit = role.buffer(400 << 20);
  const auto layers = static_cast<int>(state.range(0) / 5);
  OpId previous;
  for (int i = 0; i < 2 * layers; ++i) {
    const bool backward = i >= layers;
    const OpId gather = role.collective(OpKind::AllGather, {1}, Stream::Gather, unit, {previous});
    const OpId call = role.call({backward ? 1 : 0}, {gather});
    if (backward) role.collective(OpKind::ReduceScatter, {1}, Stream::Reduce, unit, {call});
    previous = call;
  }
  simulate_program(state, std::move(program), cluster());
}
BENCHMARK(fsdp)->Arg(10'000)->Arg(1'000'000)->Arg(10'000'000)->Unit(benchmark::kMillisecond);

/// 1F1B over 8 stages as the passes lower it: with its buffers, and dependencies for their reuse.
void lowered_pipeline(benchmark::State& state) {
  Scenario s;
  s.model.architecture = Architecture::Synthetic;
  s.costs = CostsSpec{{10e-3}, {12e-3}, {8e-3}, 1e-3};
  s.strategy.pipeline_parallel_degree = 8;
  s.strategy.pipeline_parallel_microbatches = static_cast<int>(state.range(0) / 44);
  s.training.local_batch_size = s.strategy.pipeline_parallel_microbatches;
  s.cluster = cluster();
  s.cluster.device.memory = {std::int64_t{1} << 40};
  Result<Program> program = lower(s);
  if (!program) {
    state.SkipWithError(program.error().message.c_str());
    return;
  }
  simulate_program(state, std::move(*program), s.cluster);
}
BENCHMARK(lowered_pipeline)
    ->Arg(10'000)
    ->Arg(1'000'000)
    ->Arg(10'000'000)
    ->Unit(benchmark::kMillisecond);

/// The pipeline with two ranks on every device, which runs one at full rate, so that rates change.
void shared_devices(benchmark::State& state) {
  const int p = 8;
  const int m = static_cast<int>(state.range(0) / (6 * p - 4));
  ClusterSpec spec = cluster();
  spec.ranks_per_device = 2;
  simulate_program(state, make_pipeline({Order::OneFOneB, p, m, 1, 10e-3, 20e-3, 1e-3}), spec);
}
BENCHMARK(shared_devices)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep

BENCHMARK_MAIN();
