// A run that diverges leaves files that every reader takes.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/read_file.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/trace/chrome_trace.hpp"
#include "core/trace/gzip_file.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep {
namespace {

using test::CommandOutcome;
using test::kTiny;
using test::lockstep;

std::string unzipped(const std::string& path) {
  GzipReader file(path);
  std::string text, part(1 << 16, '\0');
  while (const std::size_t n = file.read(part.data(), part.size())) text.append(part, 0, n);
  return text;
}

bool is_json(const std::string& text) {
  return !nlohmann::json::parse(text, nullptr, false).is_discarded();
}

std::vector<std::string> diverging(const TemporaryFolder& folder) {
  write_bytes(folder / "s.toml", kTiny);
  return {"run",
          folder / "s.toml",
          "--backend",
          "cpu",
          "--quiet",
          "--out",
          folder / "run",
          "--set",
          "optimizer.lr=1e30",
          "--set",
          "checkpoint.interval=1"};
}

TEST_CASE("a run whose loss becomes NaN stops, with an exit code of its own, and does not save it",
          "[cli]") {
  const TemporaryFolder folder;
  const CommandOutcome o = lockstep(diverging(folder));
  INFO(o.out << o.err);
  CHECK(o.exit_code == 6);
  CHECK_THAT(o.err, ContainsSubstring("is not finite, so the run ends here"));
  std::ifstream metrics(folder / "run/metrics.jsonl");
  std::string last;
  int lines = 0;
  for (std::string line; std::getline(metrics, line); ++lines) last = line;
  CHECK(lines < 6);
  CHECK_THAT(last, ContainsSubstring("null"));
  // Whatever was saved is finite, and can be gone on from.
  const std::string checkpoints = folder / "run/checkpoints";
  if (std::filesystem::exists(checkpoints + "/latest")) {
    const auto state = load_checkpoint(checkpoints);
    REQUIRE(state.ok());
    CHECK(state->step < lines);
    for (const auto& [name, tensor] : state->tensors) {
      CHECK_FALSE(first_not_finite(tensor.data, tensor.dtype).has_value());
    }
  }
}

TEST_CASE("a run whose loss becomes NaN leaves a run folder that reads", "[cli]") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  std::vector<std::string> run = diverging(folder);
  run.insert(run.end(), {"--steps", "4", "--set", "training.on_nonfinite=go_on"});
  const CommandOutcome o = lockstep(run);
  INFO(o.out << o.err);
  CHECK_THAT(o.out, ContainsSubstring("not finite since step"));
  const Result<Run> read = read_run(out);
  REQUIRE(read.ok());
  REQUIRE(read->report.losses.size() == 4);
  CHECK(std::isnan(read->report.losses.back()));
  REQUIRE(read->trace.steps.size() == 4);
  CHECK(std::isnan(read->trace.steps.back().loss));

  const Result<std::string> report = read_file(out + "/report.json");
  REQUIRE(report.ok());
  CHECK(is_json(*report));
  CHECK(is_json(unzipped(out + "/trace.json.gz")));
  std::ifstream metrics(out + "/metrics.jsonl");
  int lines = 0;
  for (std::string line; std::getline(metrics, line); ++lines) CHECK(is_json(line));
  CHECK(lines == 4);
  const CommandOutcome again = lockstep({"report", out, "--json"});
  CHECK(again.exit_code == 0);
  CHECK(is_json(again.out));
  CHECK_THAT(lockstep({"report", out}).out, ContainsSubstring("not finite since step"));
  CHECK_FALSE(std::filesystem::exists(out + "/checkpoints/step-4"));
}

}  // namespace
}  // namespace lockstep
