#include <cmath>
#include <limits>
#include <string>

#include "core/run/executor.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/memory_store.hpp"
#include "tests/core/run/two_ranks.hpp"

namespace lockstep {
namespace {

using testing::TwoRanks;

}  // namespace

TEST_CASE("checkpoints come every n global steps and continue the count of the initial state",
          "[core][run]") {
  TwoRanks f;
  f.options.return_state = true;
  f.options.steps = 1;
  const auto first = f.run();
  REQUIRE(first.ok());
  TrainingState start = first->state;
  start.step = 4;
  start.samples.reset();  // those of four steps

  TwoRanks g;
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
  TwoRanks f;
  f.options.return_state = true;
  const auto first = f.run();
  REQUIRE(first.ok());
  TrainingState start = first->state;
  CHECK(start.samples == 8);
  start.step = 4;
  start.samples = 1000;
  TwoRanks g;
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
  TwoRanks f;
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
  TwoRanks f;
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

}  // namespace lockstep
