// Every file under scenarios/ is a test: it runs, and what it expects holds.
#include <algorithm>
#include <filesystem>

#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

using namespace lockstep;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(LOCKSTEP_SOURCE_DIR) / "scenarios")) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("every scenario runs and meets its expectations", "[scenarios]") {
  const auto files = scenario_files();
  REQUIRE(files.size() >= 10);
  for (const std::string& file : files) {
    INFO(file);
    const test::CommandOutcome outcome = test::lockstep({"run", file});
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("schedules and lessons state what they expect", "[scenarios]") {
  for (const std::string& file : scenario_files()) {
    const fs::path folder = fs::path(file).parent_path().filename();
    if (folder != "schedules" && folder != "lessons") continue;
    INFO(file);
    const LoadedScenario loaded = load_scenario(file, {});
    REQUIRE(loaded.ok());
    for (const SweepPoint& point : loaded.points) CHECK(!point.scenario.expect.empty());
  }
}

TEST_CASE("the vision scenarios train on the CPU to what they expect", "[scenarios]") {
  for (const std::string& file : scenario_files()) {
    if (fs::path(file).parent_path().filename() != "vision") continue;
    INFO(file);
    const test::CommandOutcome outcome =
        test::lockstep({"run", file, "--backend", "cpu", "--quiet"});
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("every tiny scenario trains on the CPU and its loss falls", "[scenarios]") {
  for (const std::string& file : scenario_files()) {
    if (fs::path(file).parent_path().filename() != "tiny") continue;
    INFO(file);
    const test::CommandOutcome outcome =
        test::lockstep({"run", file, "--backend", "cpu", "--set", "expect.\"losses.19\"={max=5.0}",
                        "--set", "expect.\"losses.0\"={min=5.3}"});
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == 0);
  }
}
