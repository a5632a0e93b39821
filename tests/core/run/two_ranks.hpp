// Two ranks of the fake device, which run a tiny program under the executor.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "core/run/executor.hpp"
#include "tests/core/run/fake_device.hpp"
#include "tests/core/run/loopback_process.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep::testing {

inline constexpr int kSeqLen = 3;

/// Two data-parallel ranks, two microbatches of two sequences each.
inline Program tiny_program() {
  Program program = program_of("dp_replicate", 2);
  program.parameters = {{"w", {8}, InitKind::Normal, 1.0}};
  Kernel delay;
  delay.kind = KernelKind::Delay;
  const std::int32_t forward = add_function(
      program, "f.F", {{"x", Access::Read, {24}}, {"g", Access::Write, {32}}}, {delay});
  RoleBuilder role;
  Unit unit;
  unit.name = "w";
  unit.parameters = {{{0}, 0, {}}};
  unit.elements = unit.shard_elements = 8;
  unit.states[StateKind::Param] = role.buffer(BufferKind::Param, DType::F32, 8, true);  // at 0
  role.unit(unit);
  const BufferId tokens = role.buffer(BufferKind::Input, DType::I32, 2 * 2 * kSeqLen);  // at 64
  const BufferId grad = role.buffer(BufferKind::Grad, DType::F32, 8);                   // at 128
  const BufferId loss = role.buffer(BufferKind::Metric, DType::F64, 1);                 // at 192
  std::vector<OpId> calls;
  for (Microbatch mb = 0; mb < 2; ++mb) {
    const BufferId part = role.view(tokens, mb * 2 * kSeqLen, 2 * kSeqLen);
    const OpId copy = role.copy(OpKind::HostToDevice,
                                mb == 0 ? HostData::Tokens : HostData::Targets, part, {}, mb);
    calls.push_back(role.op(OpKind::Call, Stream::Compute, forward, {part, grad}, {copy}, mb));
  }
  const OpId reduce = role.op(OpKind::AllReduce, Stream::Reduce, 0, {grad}, {calls[0], calls[1]});
  const OpId last =
      role.op(OpKind::Call, Stream::Compute, forward, {tokens, grad}, {calls[1], reduce});
  role.copy(OpKind::DeviceToHost, HostData::Loss, loss, {last});
  program.roles.push_back(role.finish({0, 1}));
  program.training.seed = 42;
  program.training.learning_rate.base = 0.5;
  program.training.learning_rate.warmup_steps = 4;
  Samples& samples = program.input.samples;  // two ranks, two microbatches of two rows
  samples.kind = SampleKind::Tokens;
  samples.length = kSeqLen;
  samples.classes = 1 << 20;
  samples.per_step = 8;
  samples.microbatch = 2;
  samples.over = {0};
  return program;
}

struct TwoRanks {
  Program program = tiny_program();
  RunOptions options;
  std::deque<FakeRank> ranks;

  TwoRanks() {
    for (Rank r = 0; r < 2; ++r) {
      ranks.emplace_back();
      ranks.back().arena.resize(to_size(program.roles[0].arena.v));
      ranks.back().metric = 3.5 + r;
    }
  }
  Result<RunResult> run(const ExecutorOptions& executor_options = {}) {
    return run_ranks({0, 1}, options, executor_options);
  }
  Result<RunResult> run_ranks(const std::vector<Rank>& own, const RunOptions& run_options,
                              const ExecutorOptions& executor_options) {
    std::deque<FakeDevice> devices;
    std::deque<FakeCommunicator> communicators;
    std::vector<RankPort> ports;
    for (const Rank r : own) {
      devices.emplace_back(ranks[r]);
      communicators.emplace_back(ranks[r], devices.back());
      ports.push_back({r, &devices.back(), &communicators.back()});
    }
    // Token t of sample s is 100 s + t, its target that plus one half thousand.
    const BatchSource batches = [](std::int64_t sample, std::span<std::int32_t> tokens,
                                   std::span<std::int32_t> targets) {
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        tokens[t] = static_cast<std::int32_t>(100 * sample + static_cast<std::int64_t>(t));
        targets[t] = tokens[t] + 50000;
      }
    };
    return execute(program, run_options, "fake", ports, batches, executor_options);
  }
  /// Runs each rank in a process of its own, with each[rank] as its options.
  std::vector<Result<RunResult>> run_apart(const std::vector<RunOptions>& each) {
    std::vector<Result<RunResult>> results(2, RunResult{});
    in_processes(2, [&](Process& process) {
      const Rank rank = process.index();
      results[rank] = run_ranks({rank}, each[rank], {.process = &process});
      if (!results[rank]) process.fail(results[rank].error());
    });
    return results;
  }
};

}  // namespace lockstep::testing
