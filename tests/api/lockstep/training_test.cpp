#include "lockstep/training.hpp"

#include <filesystem>

#include "core/run_folder/metrics_tail.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep::api {
namespace {

using lockstep::test::kTiny;

std::vector<double> losses_of(const std::string& folder) {
  std::vector<double> losses;
  bool restarted = false;
  for (const StepMetrics& step : MetricsTail(folder + "/metrics.jsonl").poll(restarted)) {
    losses.push_back(step.loss);
  }
  return losses;
}

TEST_CASE("the library goes on where the command line stopped, with its bits", "[api]") {
  const TemporaryFolder folder;
  const std::string file = folder / "s.toml";
  write_bytes(file, kTiny);
  const auto run = [&](const std::string& out, const std::string& steps) {
    const auto said = lockstep::test::lockstep({"run", file, "--backend", "cpu", "--quiet", "--out",
                                                out, "--resume", "auto", "--steps", steps});
    INFO(said.err);
    REQUIRE(said.exit_code == 0);
  };
  run(folder / "whole", "6");
  run(folder / "parts", "3");
  const Result<Scenario> scenario = Scenario::load(file);
  REQUIRE(scenario.ok());
  TrainingOptions options;
  options.folder = folder / "parts";
  options.resume = "auto";
  std::vector<int> seen;
  options.on_step = [&](const TrainingStep& step) {
    seen.push_back(step.step);
    CHECK(step.last == 6);
    return true;
  };
  const Result<Training> training = train(*scenario, options);
  REQUIRE(training.ok());
  CHECK(training->end == TrainingEnd::Done);
  CHECK(seen == std::vector<int>{4, 5, 6});
  CHECK(losses_of(folder / "parts") == losses_of(folder / "whole"));
  CHECK(read_bytes(folder / "parts/checkpoints/step-6/model.safetensors") ==
        read_bytes(folder / "whole/checkpoints/step-6/model.safetensors"));
  REQUIRE(training->run.has_value());
  CHECK(training->run->report_json() == read_bytes(folder / "parts/report.json"));
  const Result<Training> again = train(*scenario, options);
  REQUIRE(again.ok());
  CHECK(again->steps.empty());
  REQUIRE(again->run.has_value());
  CHECK(again->run->report_json() == training->run->report_json());
}

TEST_CASE("what ends a training in the library says so as the command line does", "[api]") {
  const TemporaryFolder folder;
  const std::string file = folder / "s.toml";
  write_bytes(file, kTiny);
  const Result<Scenario> scenario = Scenario::load(file);
  REQUIRE(scenario.ok());
  TrainingOptions options;
  options.resume = folder / "none";
  const Result<Training> refused = train(*scenario, options);
  const auto said =
      lockstep::test::lockstep({"run", file, "--backend", "cpu", "--resume", folder / "none"});
  REQUIRE(!refused.ok());
  CHECK_THAT(said.err, ContainsSubstring(to_string(refused.faults())));
  options.resume = "";
  options.folder = folder / "stopped";
  options.on_step = [](const TrainingStep& step) { return step.step < 2; };
  const Result<Training> stopped = train(*scenario, options);
  REQUIRE(stopped.ok());
  CHECK(stopped->end == TrainingEnd::Stopped);
  CHECK(stopped->steps.size() == 2);
  CHECK(std::filesystem::exists(folder / "stopped/checkpoints/step-2"));
  const Result<Scenario> wild = Scenario::load(file, {"optimizer.lr=1e30"});
  REQUIRE(wild.ok());
  const Result<Training> diverged = train(*wild);
  REQUIRE(diverged.ok());
  CHECK(diverged->end == TrainingEnd::Diverged);
  CHECK_THAT(diverged->diverged, ContainsSubstring("is not finite"));
}

}  // namespace
}  // namespace lockstep::api
