#include "core/session/session.hpp"

#include <algorithm>
#include <filesystem>

#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"
#include "tests/scenario_texts.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

using test::kTiny;

/// Writes down what it is told.
struct Listener final : SessionObserver {
  void on_begin(const SessionPlan& plan) override {
    said.push_back("begin at " + std::to_string(plan.first_step) + " for " +
                   std::to_string(plan.steps));
  }
  void on_step(const StepResult& step, std::optional<double> validation) override {
    said.push_back("step " + std::to_string(step.step) + (validation ? " validated" : ""));
    losses.push_back(step.loss);
    if (step.step == stop_after) stop = true;
  }
  void on_end() override { said.push_back("end"); }
  void on_note(const std::string& text) override { said.push_back(text); }

  int stop_after = -1;
  std::atomic<bool> stop = false;
  std::vector<std::string> said;
  std::vector<double> losses;
};

Scenario scenario_of(const std::string& text, const std::vector<std::string>& set = {}) {
  LoadedScenario loaded = parse_scenario(text, "s.toml", set);
  REQUIRE(loaded.ok());
  return std::move(loaded.points.front().scenario);
}

Result<SessionOutcome> train(const Scenario& scenario, SessionOptions options, Listener& listener) {
  options.backend = "cpu";
  options.cancel = &listener.stop;
  SoleProcess process;
  const Subject subject = subject_of(scenario);
  return run_session(subject, options, process, listener);
}

SessionOptions into(const std::string& folder, int steps) {
  SessionOptions options;
  options.out = folder;
  options.resume = kResumeAuto;
  options.steps = steps;
  return options;
}

TEST_CASE("a session that stops and goes on has the bits of one that never stopped", "[session]") {
  const TemporaryFolder folder;
  const Scenario scenario = scenario_of(kTiny);
  Listener whole, first, second;
  REQUIRE(train(scenario, into(folder / "whole", 6), whole).ok());
  REQUIRE(train(scenario, into(folder / "parts", 3), first).ok());
  const auto ended = train(scenario, into(folder / "parts", 6), second);
  REQUIRE(ended.ok());
  std::vector<double> parts = first.losses;
  parts.insert(parts.end(), second.losses.begin(), second.losses.end());
  CHECK(parts == whole.losses);
  CHECK(read_bytes(folder / "parts/checkpoints/step-6/model.safetensors") ==
        read_bytes(folder / "whole/checkpoints/step-6/model.safetensors"));
  CHECK(second.said ==
        std::vector<std::string>{"begin at 3 for 3", "step 3", "step 4", "step 5", "end"});
  CHECK(ended->ending == Ending::Done);
  REQUIRE(ended->report.has_value());
  CHECK(ended->report->step_time.v > 0);
  CHECK(!ended->trace.spans.empty());
}

TEST_CASE("a session with nothing left to do says so and leaves the folder as it was",
          "[session]") {
  const TemporaryFolder folder;
  const Scenario scenario = scenario_of(kTiny);
  Listener listener, again;
  REQUIRE(train(scenario, into(folder / "run", 3), listener).ok());
  const std::string report = read_bytes(folder / "run/report.json");
  const auto ended = train(scenario, into(folder / "run", 3), again);
  REQUIRE(ended.ok());
  CHECK_FALSE(ended->report.has_value());
  CHECK(again.said == std::vector<std::string>{"all 3 steps of " + (folder / "run") + " are done"});
  CHECK(read_bytes(folder / "run/report.json") == report);
}

TEST_CASE("a session that is cancelled ends after its step with a checkpoint", "[session]") {
  const TemporaryFolder folder;
  const Scenario scenario = scenario_of(kTiny);
  Listener listener;
  listener.stop_after = 1;
  const auto ended = train(scenario, into(folder / "run", 6), listener);
  REQUIRE(ended.ok());
  CHECK(ended->ending == Ending::Stopped);
  CHECK(ended->report.has_value());
  CHECK(listener.said.back() ==
        "stopped after step 2; step-2 is the newest checkpoint: --resume auto goes on from there");
  CHECK(std::filesystem::exists(folder / "run/checkpoints/step-2/manifest.json"));
}

TEST_CASE("a session is told of a validation with the step before it", "[session]") {
  const TemporaryFolder folder;
  write_bytes(folder / "held.txt", std::string(1000, 'a') + std::string(1000, 'b'));
  const Scenario scenario = scenario_of(kTiny, {"validation.freq=2", "validation.steps=1",
                                                "validation.dataset=" + (folder / "held.txt")});
  Listener listener;
  SessionOptions options;
  options.steps = 3;
  REQUIRE(train(scenario, options, listener).ok());
  CHECK(std::count(listener.said.begin(), listener.said.end(), "step 1 validated") == 1);
  CHECK(std::count(listener.said.begin(), listener.said.end(), "step 2") == 1);
}

TEST_CASE("a session that fails while it trains still says that no step follows", "[session]") {
  const TemporaryFolder folder;
  const Scenario scenario = scenario_of(kTiny, {"training.dataset=" + (folder / "none.bin")});
  Listener listener;
  const auto ended = train(scenario, into(folder / "run", 6), listener);
  REQUIRE(!ended.ok());
  CHECK(ended.error().kind == ErrorKind::InvalidSpec);
  CHECK(std::count(listener.said.begin(), listener.said.end(), "end") ==
        std::count(listener.said.begin(), listener.said.end(), "begin at 0 for 6"));
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
}

}  // namespace
}  // namespace lockstep
