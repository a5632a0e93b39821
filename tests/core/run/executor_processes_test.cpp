#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "core/run/executor.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/memory_store.hpp"
#include "tests/core/run/two_ranks.hpp"

namespace lockstep {
namespace {

using testing::TwoRanks;

}  // namespace

TEST_CASE("ranks in processes of their own leave the leader what one process returns",
          "[core][run]") {
  TwoRanks together;
  together.options.steps = 4;
  together.options.trace_from = 1;
  together.options.trace_steps = 2;
  together.options.return_state = true;
  const auto expected = together.run();
  REQUIRE(expected.ok());

  TwoRanks apart;
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
  TwoRanks f;
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
    TwoRanks f;
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
  TwoRanks f, other;
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
