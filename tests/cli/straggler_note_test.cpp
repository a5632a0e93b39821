// What a run on the CPU says of a rank for which the others wait.
#include <sstream>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep::test {
namespace {

/// Two stages whose ops let time pass; the second waits for the first four fifths of the step.
const std::string kSlowFirst = R"([model]
preset = "synthetic"
[parallelism]
pipeline_parallel_degree = 2
[costs]
forward = [0.02, 0.001]
backward_input = 0.001
backward_weight = 0.001
)";

std::vector<std::string> lines_about_waiting(const std::string& steps) {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSlowFirst);
  const CommandOutcome run =
      lockstep({"run", folder / "s.toml", "--backend", "cpu", "--quiet", "--steps", steps});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  std::vector<std::string> found;
  std::istringstream text(run.err);
  for (std::string line; std::getline(text, line);) {
    if (line.find("straggler") != std::string::npos) found.push_back(line);
  }
  return found;
}

}  // namespace

TEST_CASE("a run on the CPU names its straggler in one line at its end", "[cli]") {
  // The first 16 steps find it, and the 33 from the last of them to the end are counted; on a busy
  // machine some of them are out of the ordinary.
  const std::vector<std::string> lines = lines_about_waiting("48");
  REQUIRE(lines.size() == 1);
  INFO(lines[0]);
  const std::string begin = "note: others waited for rank 0 in ";
  REQUIRE(lines[0].starts_with(begin));
  const std::size_t end = lines[0].find(' ', begin.size());
  const int steps = std::stoi(lines[0].substr(begin.size(), end - begin.size()));
  CHECK(steps >= 1);
  CHECK(steps <= 33);
  CHECK(lines[0].substr(end) ==
        " of 48 steps (straggler in metrics.jsonl), which is usual where ranks share cores");
}

TEST_CASE("a run too short to find a straggler names none", "[cli]") {
  CHECK(lines_about_waiting("15").empty());
}

}  // namespace lockstep::test
