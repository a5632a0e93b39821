#include "core/run/executor.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>

#include "tests/catch.hpp"
#include "tests/core/run/fake_device.hpp"
#include "tests/core/run/loopback_process.hpp"
#include "tests/core/run/memory_store.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep {
namespace {

using Log = std::vector<std::string>;

constexpr int kSeqLen = 3;

/// Two data-parallel ranks, two microbatches of two sequences each.
Program tiny_program() {
  Program program = testing::program_of("dp_replicate", 2);
  program.parameters = {{"w", {8}, InitKind::Normal, 1.0}};
  Kernel delay;
  delay.kind = KernelKind::Delay;
  const std::int32_t forward = testing::add_function(
      program, "f.F", {{"x", Access::Read, {24}}, {"g", Access::Write, {32}}}, {delay});
  testing::RoleBuilder role;
  Unit unit;
  unit.name = "w";
  unit.parameters = {{{0}, 0, {}}};
  unit.elements = unit.shard_elements = 8;
  unit.param = role.buffer(BufferKind::Param, DType::F32, 8, true);  // at 0
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

struct Fixture {
  Program program = tiny_program();
  RunOptions options;
  std::deque<testing::FakeRank> ranks;

  Fixture() {
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
    std::deque<testing::FakeDevice> devices;
    std::deque<testing::FakeCommunicator> communicators;
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
    testing::in_processes(2, [&](Process& process) {
      const Rank rank = process.index();
      results[rank] = run_ranks({rank}, each[rank], {.process = &process});
      if (!results[rank]) process.fail(results[rank].error());
    });
    return results;
  }
};

}  // namespace

TEST_CASE("ops are enqueued in order, each after waits for its dependencies on other streams",
          "[core][run]") {
  Fixture f;
  f.options.steps = 2;
  REQUIRE(f.run().ok());
  const Log step = {"copy %0 at 64 of 24", "compute waits %0",  "call %1 at 64 128",
                    "copy %2 at 88 of 24", "compute waits %2",  "call %3 at 88 128",
                    "reduce waits %1",     "reduce waits %3",   "all_reduce %4 float32 32@128",
                    "compute waits %4",    "call %5 at 64 128", "copy waits %5",
                    "copy %6 at 192 of 8", "synchronize"};
  Log expected;
  for (const char* name : {"step 0", "step 1"}) {
    expected.emplace_back(name);
    expected.insert(expected.end(), step.begin(), step.end());
  }
  CHECK(f.ranks[0].log == expected);
  CHECK(f.ranks[1].log == expected);
}

TEST_CASE("batches depend on the global sample index alone", "[core][run]") {
  Fixture f;
  f.options.steps = 2;
  REQUIRE(f.run().ok());
  // Global batch 8: step s, rank r, microbatch m, row i is sample 8 s + 4 r + 2 m + i.
  for (int step = 0; step < 2; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      for (int mb = 0; mb < 2; ++mb) {
        std::vector<std::int32_t> expected;
        for (int row = 0; row < 2; ++row) {
          for (int t = 0; t < kSeqLen; ++t) {
            expected.push_back(100 * (8 * step + 4 * rank + 2 * mb + row) + t +
                               (mb == 1 ? 50000 : 0));
          }
        }
        CHECK(f.ranks[rank].copied[2 * step + mb] == expected);
      }
    }
  }
}

TEST_CASE("steps are reported as they end with the lowest rank's loss and the scheduled rate",
          "[core][run]") {
  Fixture f;
  f.options.steps = 3;
  f.ranks[0].metric = std::numeric_limits<double>::quiet_NaN();
  std::vector<StepResult> told;
  const auto caller = std::this_thread::get_id();
  f.options.on_step = [&](const StepResult& step) {
    CHECK(std::this_thread::get_id() == caller);
    CHECK(f.ranks[0].log.back() == "synchronize");
    told.push_back(step);
  };
  const auto result = f.run();
  REQUIRE(result.ok());
  REQUIRE(told.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(told[i].step == i);
    CHECK(std::isnan(told[i].loss));
    CHECK(told[i].lr == 0.5 * (i + 1) / 4);
    CHECK(told[i].time.v > 0);
  }
  CHECK(result->trace.steps.size() == 3);
}

TEST_CASE("spans are kept of the traced steps, sorted, from time zero", "[core][run]") {
  Fixture f;
  f.options.steps = 4;
  f.options.trace_from = 1;
  f.options.trace_steps = 2;
  const auto result = f.run();
  REQUIRE(result.ok());
  const Trace& trace = result->trace;
  CHECK(trace.backend == "fake");
  CHECK(trace.peak_memory ==
        std::vector<std::int64_t>(2, static_cast<std::int64_t>(f.ranks[0].arena.size())));
  CHECK(trace.same_as == std::vector<Rank>{0, 1});
  REQUIRE(trace.spans.size() == 2 * 2 * 7);
  // Sorted by (step, rank, stream, begin): the compute stream's %1 %3 %5, then %4, then the copies.
  const std::vector<int> order = {1, 3, 5, 4, 0, 2, 6};
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    CHECK(span.step == static_cast<int>(1 + i / 14));
    CHECK(span.rank == static_cast<int>(i / 7 % 2));
    CHECK(span.op.v == order[i % 7]);
    CHECK(span.begin == SimTime{10 * span.op.v});
    CHECK(span.active == span.begin + SimTime{2});
    CHECK(span.end == span.begin + SimTime{5});
  }
}

TEST_CASE("a validation reads the first samples of other data and keeps what a step changes",
          "[core][run]") {
  Fixture f;
  f.options.steps = 5;
  std::vector<double> losses;
  std::vector<std::int64_t> seen;
  std::mutex mutex;
  f.options.validation = {
      2, 3,
      [&](std::int64_t sample, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
        const std::lock_guard lock(mutex);
        seen.push_back(sample);
        std::fill(tokens.begin(), tokens.end(), 7);
        std::fill(targets.begin(), targets.end(), 8);
      }};
  f.options.on_validation = [&](double loss) { losses.push_back(loss); };
  f.options.return_state = true;
  const auto result = f.run();
  REQUIRE(result.ok());
  CHECK(losses == std::vector<double>{3.5, 3.5});  // after steps 2 and 4; rank 0's metric
  // Two validations of three steps of eight samples, each of which is read once.
  std::sort(seen.begin(), seen.end());
  std::vector<std::int64_t> expected;
  for (std::int64_t sample = 0; sample < 24; ++sample) expected.insert(expected.end(), 2, sample);
  CHECK(seen == expected);
  Fixture without;
  without.options.steps = 5;
  without.options.return_state = true;
  const auto plain = without.run();
  REQUIRE(plain.ok());
  CHECK(result->state.tensors == plain->state.tensors);
  CHECK(result->trace.steps.size() == 5);
}

TEST_CASE("poison covers everything but parameters at first, and but persistent buffers later",
          "[core][run]") {
  Fixture f;
  f.options.steps = 1;
  REQUIRE(f.run({.poison = true}).ok());
  for (std::size_t i = 32; i < f.ranks[0].arena.size(); ++i) {
    CHECK(f.ranks[0].arena[i] == std::byte{0xff});
  }
  CHECK(f.ranks[0].arena[0] != std::byte{0xff});
  Fixture g;
  REQUIRE(g.run().ok());
  CHECK(g.ranks[0].arena[64] == std::byte{0});
}

TEST_CASE("one rank's failure ends the others and is the error returned", "[core][run]") {
  for (const int failing : {0, 1}) {
    Fixture f;
    f.options.steps = 5;
    f.ranks[failing].fails_at_step = 0;
    f.ranks[1 - failing].hangs = true;
    const auto result = f.run();
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().kind == ErrorKind::Device);
    CHECK(result.error().message == "the fake device breaks");
    CHECK(f.ranks[1 - failing].log.back() == "synchronize");
  }
}

TEST_CASE("a kernel that the device lacks is refused before any op runs", "[core][run]") {
  Fixture f;
  f.ranks[1].unsupported = KernelKind::Delay;
  const auto result = f.run();
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().kind == ErrorKind::Unsupported);
  CHECK(result.error().message == "backend 'fake' has no float32 delay, which f.F needs");
  CHECK(f.ranks[0].log.empty());
}

TEST_CASE("a set cancel flag stops after the current step", "[core][run]") {
  Fixture f;
  std::atomic<bool> cancel = false;
  f.options.steps = 10;
  f.options.cancel = &cancel;
  f.options.return_state = true;
  f.options.on_step = [&](const StepResult& step) { cancel = step.step == 2; };
  const auto result = f.run();
  REQUIRE(result.ok());
  CHECK(result->trace.steps.size() == 3);
  CHECK(result->state.step == 3);
}

TEST_CASE("checkpoints come every n global steps and continue the count of the initial state",
          "[core][run]") {
  Fixture f;
  f.options.return_state = true;
  f.options.steps = 1;
  const auto first = f.run();
  REQUIRE(first.ok());
  TrainingState start = first->state;
  start.step = 4;
  start.samples.reset();  // those of four steps

  Fixture g;
  g.options.steps = 5;  // steps 4 … 8
  g.options.initial_state = &start;
  g.options.checkpoint_every = 3;
  testing::MemoryDisk disk;
  testing::MemoryStore store(disk);
  g.options.store = &store;
  const auto result = g.run();
  REQUIRE(result.ok());
  REQUIRE(disk.saved.size() == 2);  // after step 9 once, although it is the last step, too
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(disk.saved[i].step == (i == 0 ? 6 : 9));
    CHECK(disk.saved[i].samples == 8 * disk.saved[i].step);
    CHECK(disk.saved[i].tensors == start.tensors);
  }
  CHECK(result->saved_step == 9);
  CHECK(result->trace.steps.front().step == 4);
  CHECK(g.ranks[0].copied[0][0] == 100 * (8 * 4));  // data continue at step 4's samples

  disk.fault = "disk full";
  const auto failed = g.run();
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().message == "disk full");
}

TEST_CASE("training goes on with the samples after those that were read, not with steps x batch",
          "[core][run]") {
  Fixture f;
  f.options.return_state = true;
  const auto first = f.run();
  REQUIRE(first.ok());
  TrainingState start = first->state;
  CHECK(start.samples == 8);
  start.step = 4;
  start.samples = 1000;
  Fixture g;
  g.options.return_state = true;
  g.options.initial_state = &start;
  g.options.steps = 2;
  const auto rest = g.run();
  REQUIRE(rest.ok());
  CHECK(g.ranks[0].copied[0][0] == 100 * 1000);
  CHECK(rest->state.samples == 1016);
  CHECK(rest->state.step == 6);
}

TEST_CASE("a loss that is not finite ends a run, and what it left is not saved", "[core][run]") {
  Fixture f;
  testing::MemoryDisk disk;
  testing::MemoryStore store(disk);
  f.options.steps = 6;
  f.options.store = &store;
  f.options.checkpoint_every = 2;
  bool heals = false;
  f.options.on_step = [&](const StepResult& step) {
    if (step.step == 2 && !heals) f.ranks[0].metric = std::numeric_limits<double>::quiet_NaN();
  };
  SECTION("stop") {
    f.options.on_nonfinite = NonFinite::Stop;
    const auto result = f.run();
    REQUIRE(result.ok());
    CHECK(result->ending == Ending::Diverged);
    CHECK(result->trace.steps.size() == 4);
    REQUIRE(disk.saved.size() == 1);
    CHECK(disk.saved[0].step == 2);
    CHECK(result->saved_step == 2);
  }
  SECTION("go on") {
    f.options.on_nonfinite = NonFinite::GoOn;
    const auto result = f.run();
    REQUIRE(result.ok());
    CHECK(result->ending == Ending::Done);
    CHECK(result->trace.steps.size() == 6);
    CHECK(disk.saved.size() == 1);
  }
  SECTION("skip") {
    f.options.on_nonfinite = NonFinite::Skip;
    f.options.on_note = [&](const std::string& note) {
      CHECK(note == "step 4 is skipped: its loss is not finite");
      heals = true;
      f.ranks[0].metric = 3.5;
    };
    const auto result = f.run();
    REQUIRE(result.ok());
    CHECK(result->ending == Ending::Done);
    CHECK(heals);
    CHECK(result->trace.steps.size() == 6);  // the step counts, and so do its samples
    REQUIRE(disk.saved.size() == 3);
    CHECK(disk.saved[1].step == 4);  // with the values of step 3
    CHECK(disk.saved[1].samples == 4 * 8);
  }
  SECTION("skip again and again") {
    f.options.on_nonfinite = NonFinite::Skip;
    f.options.steps = 100;
    int skips = 0;
    f.options.on_note = [&](const std::string&) { ++skips; };
    const auto result = f.run();
    REQUIRE(result.ok());
    CHECK(result->ending == Ending::Diverged);
    CHECK(skips == 20);
  }
  SECTION("roll back, past the samples that were read") {
    f.options.on_nonfinite = NonFinite::Rollback;
    std::vector<std::string> notes;
    f.options.on_note = [&](const std::string& note) {
      notes.push_back(note);
      heals = true;
      f.ranks[0].metric = 3.5;
    };
    const auto result = f.run();
    REQUIRE(result.ok());
    CHECK(result->ending == Ending::Done);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], ContainsSubstring("the loss of step 4 is not finite: going back to step 2 "
                                           "and on with sample 32"));
    std::vector<int> steps;
    for (const StepResult& step : result->trace.steps) steps.push_back(step.step);
    CHECK(steps == std::vector<int>{0, 1, 2, 3, 4, 5});
    CHECK(disk.saved.back().step == 6);
    CHECK(disk.saved.back().samples == 8 * 8);  // 6 steps, and the 2 that were left out
  }
  SECTION("roll back again and again") {
    f.options.on_nonfinite = NonFinite::Rollback;
    int returns = 0;
    f.options.on_note = [&](const std::string&) { ++returns; };
    const auto result = f.run();
    REQUIRE(result.ok());
    CHECK(result->ending == Ending::Diverged);
    CHECK(returns == 3);
  }
}

TEST_CASE("a state with a number that is not finite is left out, and the run says so",
          "[core][run]") {
  Fixture f;
  testing::MemoryDisk disk;
  testing::MemoryStore store(disk);
  store.refuses = "element 7 of a is not a finite number";
  f.options.store = &store;
  f.options.on_nonfinite = NonFinite::Stop;
  std::string note;
  f.options.on_note = [&](const std::string& text) { note = text; };
  const auto result = f.run();
  REQUIRE(result.ok());
  CHECK(result->ending == Ending::Diverged);
  CHECK_FALSE(result->saved_step.has_value());
  CHECK(disk.saved.empty());
  CHECK(note == store.refuses);
}

TEST_CASE("ranks in processes of their own leave the leader what one process returns",
          "[core][run]") {
  Fixture together;
  together.options.steps = 4;
  together.options.trace_from = 1;
  together.options.trace_steps = 2;
  together.options.return_state = true;
  const auto expected = together.run();
  REQUIRE(expected.ok());

  Fixture apart;
  std::vector<RunOptions> options(2, together.options);
  std::vector<int> told;
  testing::MemoryDisk disk;
  std::deque<testing::MemoryStore> stores;
  for (std::size_t i = 0; i < 2; ++i) {
    options[i].checkpoint_every = 2;
    options[i].on_step = [&told, i](const StepResult&) { told.push_back(static_cast<int>(i)); };
    options[i].store = &stores.emplace_back(disk);
  }
  const auto results = apart.run_apart(options);
  REQUIRE(results[0].ok());
  REQUIRE(results[1].ok());
  const RunResult& leader = *results[0];
  CHECK(leader.state == expected->state);
  CHECK(leader.trace.spans == expected->trace.spans);
  CHECK(leader.trace.memory == expected->trace.memory);
  CHECK(leader.trace.peak_memory == expected->trace.peak_memory);
  CHECK(leader.trace.clock_uncertainty == SimTime{7});
  CHECK(expected->trace.clock_uncertainty == SimTime{0});
  CHECK(told == std::vector<int>(4, 0));
  REQUIRE(disk.saved.size() == 2);
  CHECK(disk.saved.back() == expected->state);  // put together from what each of them wrote
  CHECK(disk.calls == std::vector<std::string>{"begin", "written", "written", "commit of 2",
                                               "begin", "written", "written", "commit of 2"});
  for (const auto& result : results) {  // rank 0's loss in both
    for (const StepResult& step : result->trace.steps) CHECK(step.loss == 3.5);
    CHECK(result->trace.steps.size() == 4);
  }
}

TEST_CASE("any process may cancel, and all stop after the same step", "[core][run]") {
  Fixture f;
  std::atomic<bool> cancel = false;
  std::vector<RunOptions> options(2);
  for (RunOptions& each : options) each.steps = 50;
  options[0].on_step = [&](const StepResult& step) {
    if (step.step >= 2)
      cancel = true;  // and it stays so: the other process looks when it gets to it
  };
  options[1].cancel = &cancel;
  const auto results = f.run_apart(options);
  REQUIRE(results[0].ok());
  REQUIRE(results[1].ok());
  CHECK(results[0]->trace.steps.size() == results[1]->trace.steps.size());
  CHECK(results[0]->trace.steps.size() < 50);
}

TEST_CASE("processes that would not do the same are told what differs before the first step",
          "[core][run]") {
  const auto message = [](const std::function<void(RunOptions&)>& change) {
    Fixture f;
    std::vector<RunOptions> options(2);
    for (RunOptions& each : options) each.steps = 3;
    change(options[1]);
    const auto results = f.run_apart(options);
    for (const auto& result : results) {
      REQUIRE_FALSE(result.ok());
      CHECK(result.error().kind == ErrorKind::InvalidSpec);
      CHECK(result.error().message == results[0].error().message);
    }
    CHECK(f.ranks[0].log.empty());
    return results[0].error().message;
  };
  TrainingState state;
  state.step = 4;
  CHECK(message([](RunOptions& o) { o.steps = 4; }) ==
        "the processes do not agree: process 1 differs in the steps to run: it has 4, process 0 "
        "has 3");
  CHECK_THAT(message([&](RunOptions& o) { o.initial_state = &state; }),
             ContainsSubstring("the step of the checkpoint: it has 4, process 0 has 0"));
  CHECK_THAT(message([](RunOptions& o) { o.checkpoint_every = 2; }),
             ContainsSubstring("checkpoint.interval: it has 2"));
  CHECK_THAT(message([](RunOptions& o) { o.trace_steps = 2; }),
             ContainsSubstring("--trace-steps: it has 2"));
}

TEST_CASE("a process with another program is refused by all", "[core][run]") {
  Fixture f, other;
  other.program.tokens_per_step += 1;
  other.program.functions[0].name = "g.F";
  std::vector<std::string> messages(2);
  testing::in_processes(2, [&](Process& process) {
    const Rank rank = process.index();
    const auto result =
        (rank == 0 ? f : other).run_ranks({rank}, RunOptions(), {.process = &process});
    if (!result) messages[rank] = result.error().message;
  });
  for (const std::string& message : messages) {
    CHECK_THAT(message, ContainsSubstring("process 1 differs in program: it has "));
  }
}

}  // namespace lockstep
