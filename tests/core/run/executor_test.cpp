#include "core/run/executor.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/core/run/two_ranks.hpp"

namespace lockstep {
namespace {

using Log = std::vector<std::string>;
using testing::kSeqLen;
using testing::TwoRanks;

}  // namespace

TEST_CASE("ops are enqueued in order, each after waits for its dependencies on other streams",
          "[core][run]") {
  TwoRanks f;
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
  TwoRanks f;
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
  TwoRanks f;
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
  TwoRanks f;
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
  TwoRanks f;
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
  TwoRanks without;
  without.options.steps = 5;
  without.options.return_state = true;
  const auto plain = without.run();
  REQUIRE(plain.ok());
  CHECK(result->state.tensors == plain->state.tensors);
  CHECK(result->trace.steps.size() == 5);
}

TEST_CASE("poison covers everything but parameters at first, and but persistent buffers later",
          "[core][run]") {
  TwoRanks f;
  f.options.steps = 1;
  REQUIRE(f.run({.poison = true}).ok());
  for (std::size_t i = 32; i < f.ranks[0].arena.size(); ++i) {
    CHECK(f.ranks[0].arena[i] == std::byte{0xff});
  }
  CHECK(f.ranks[0].arena[0] != std::byte{0xff});
  TwoRanks g;
  REQUIRE(g.run().ok());
  CHECK(g.ranks[0].arena[64] == std::byte{0});
}

TEST_CASE("one rank's failure ends the others and is the error returned", "[core][run]") {
  for (const int failing : {0, 1}) {
    TwoRanks f;
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
  TwoRanks f;
  f.ranks[1].unsupported = KernelKind::Delay;
  const auto result = f.run();
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().kind == ErrorKind::Unsupported);
  CHECK(result.error().message == "backend 'fake' has no float32 delay, which f.F needs");
  CHECK(f.ranks[0].log.empty());
}

TEST_CASE("a set cancel flag stops after the current step", "[core][run]") {
  TwoRanks f;
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

}  // namespace lockstep
