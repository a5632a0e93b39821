#include "core/run_folder/run_folder.hpp"

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using test::CommandOutcome;
using test::kSynthetic;
using test::kTiny;
using test::lockstep;

std::vector<json> metrics(const std::string& run) {
  std::ifstream file(run + "/metrics.jsonl");
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST_CASE("a training run leaves everything that is needed to repeat and to judge it", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  const CommandOutcome o =
      lockstep({"run", folder / "s.toml", "--backend", "cpu", "--out", folder / "run"});
  INFO(o.err);
  REQUIRE(o.exit_code == 0);
  CHECK_THAT(o.err, ContainsSubstring("step 1/6 | loss ") && ContainsSubstring("step 6/6") &&
                        ContainsSubstring(" tok/s"));
  for (const char* name :
       {"scenario.toml", "program.txt", "trace.json.gz", "metrics.jsonl", "report.json",
        "checkpoints/latest", "checkpoints/step-3", "checkpoints/step-6"}) {
    INFO(name);
    CHECK(std::filesystem::exists(folder / ("run/" + std::string(name))));
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path)) {
    CHECK(entry.path().extension() != ".tmp");
  }
  const auto lines = metrics(folder / "run");
  REQUIRE(lines.size() == 6);
  for (int i = 0; i < 6; ++i) {
    const json& line = lines[i];
    CHECK(line["step"] == i + 1);
    for (const char* key : {"loss", "grad_norm", "lr", "time", "throughput(tps)"}) {
      CHECK(line.contains(key));
    }
  }
  const Result<Run> run = read_run(folder / "run");
  REQUIRE(run.ok());
  CHECK(run->report.losses.size() == 6);
  CHECK(run->report.program_hash == run->trace.program_hash);

  // The resolved scenario gives the same program.
  const CommandOutcome again = lockstep({"run", folder / "run/scenario.toml", "--json"});
  REQUIRE(again.exit_code == 0);
  CHECK(json::parse(again.out)["program_hash"] == run->report.program_hash);
}

TEST_CASE("a simulated and a trained run differ in times only", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  REQUIRE(lockstep({"run", folder / "s.toml", "--out", folder / "a"}).exit_code == 0);
  REQUIRE(lockstep({"run", folder / "s.toml", "--out", folder / "b", "--backend", "cpu", "--quiet"})
              .exit_code == 0);
  const CommandOutcome o = lockstep({"compare", folder / "a", folder / "b"});
  REQUIRE(o.exit_code == 0);
  CHECK_THAT(o.out, ContainsSubstring("program      equal"));
  CHECK_THAT(o.out, ContainsSubstring("op order     equal"));
  CHECK_THAT(o.out, ContainsSubstring("peak memory  equal"));
  CHECK_THAT(o.out, !ContainsSubstring("DIFFERENT"));
  CHECK_THAT(o.out, ContainsSubstring("forward") && ContainsSubstring("all_reduce") &&
                        ContainsSubstring("largest differences by operation"));
}

TEST_CASE("a run that is resumed has the losses of one that never stopped", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", folder / "s.toml", "--backend", "cpu", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandOutcome o = lockstep(arguments);
    INFO(o.err);
    REQUIRE(o.exit_code == 0);
  };
  run({"--out", folder / "whole"});
  run({"--out", folder / "parts", "--steps", "3"});
  run({"--out", folder / "parts", "--resume", folder / "parts"});
  const auto whole = metrics(folder / "whole"), parts = metrics(folder / "parts");
  REQUIRE(whole.size() == 6);
  REQUIRE(parts.size() == 6);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(parts[i]["step"] == whole[i]["step"]);
    CHECK(parts[i]["loss"] == whole[i]["loss"]);  // to the bit
    CHECK(parts[i]["lr"] == whole[i]["lr"]);
  }

  const CommandOutcome done =
      lockstep({"run", folder / "s.toml", "--backend", "cpu", "--resume", folder / "parts"});
  CHECK(done.exit_code == 2);
  CHECK_THAT(done.err, ContainsSubstring("nothing is left to do"));
  run({"--resume", folder / "parts/checkpoints", "--steps", "1"});
}

TEST_CASE("a folder with anything else in it is never written to", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSynthetic);
  std::filesystem::create_directories(folder / "mine");
  write_bytes(folder / "mine/thesis.txt", "words");
  const CommandOutcome o = lockstep({"run", folder / "s.toml", "--out", folder / "mine"});
  CHECK(o.exit_code == 2);
  CHECK_THAT(o.err, ContainsSubstring("not a run folder"));
  CHECK_FALSE(std::filesystem::exists(folder / "mine/report.json"));

  write_bytes(folder / "file", "words");
  CHECK(lockstep({"run", folder / "s.toml", "--out", folder / "file"}).exit_code == 2);
  CHECK(read_bytes(folder / "file") == "words");

  std::filesystem::create_symlink("nowhere", folder / "link");
  const CommandOutcome link = lockstep({"run", folder / "s.toml", "--out", folder / "link"});
  CHECK(link.exit_code == 2);
  CHECK_THAT(link.err, ContainsSubstring("link is a link to nowhere, which is not there"));
}

TEST_CASE("a run folder takes a new run, but not beside another run's checkpoints", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSynthetic);
  CHECK(lockstep({"run", folder / "s.toml", "--out", folder / "run"}).exit_code == 0);
  CHECK(lockstep({"run", folder / "s.toml", "--out", folder / "run"}).exit_code == 0);
  // What a crash left of a first save is in nobody's way.
  std::filesystem::create_directories(folder / "run/checkpoints/step-1.new");
  write_bytes(folder / "run/checkpoints/step-1.new/model.safetensors", "half of it");
  CHECK(lockstep({"run", folder / "s.toml", "--out", folder / "run"}).exit_code == 0);
  std::filesystem::create_directories(folder / "run/checkpoints/step-1");
  write_bytes(folder / "run/checkpoints/step-1/model.safetensors", "somebody's");
  const CommandOutcome o = lockstep({"run", folder / "s.toml", "--out", folder / "run"});
  CHECK(o.exit_code == 2);
  CHECK_THAT(o.err, ContainsSubstring("--resume"));
}

TEST_CASE("--resume says where it looked for a checkpoint", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  const CommandOutcome o =
      lockstep({"run", folder / "s.toml", "--backend", "cpu", "--resume", folder.path.string()});
  CHECK(o.exit_code == 2);
  CHECK_THAT(o.err, ContainsSubstring("no checkpoint there or in its checkpoints folder"));
}

TEST_CASE("every point of a sweep has its own run folder", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml",
              kSynthetic + "[sweep]\nparallelism.pipeline_parallel_microbatches = [4, 8]\n");
  REQUIRE(lockstep({"run", folder / "s.toml", "--out", folder / "runs"}).exit_code == 0);
  const CommandOutcome o = lockstep({"compare", folder / "runs/0", folder / "runs/1"});
  CHECK(o.exit_code == 0);
  CHECK_THAT(o.out, ContainsSubstring("program      DIFFERENT"));
}

TEST_CASE("report and compare take run folders, their traces and Kineto's", "[cli]") {
  const TemporaryFolder folder;
  const std::string kineto = LOCKSTEP_SOURCE_DIR "/tests/data/kineto";
  write_bytes(folder / "s.toml", kTiny);
  const CommandOutcome ran = lockstep({"run", folder / "s.toml", "--out", folder / "run"});
  REQUIRE(ran.exit_code == 0);
  const CommandOutcome again = lockstep({"report", folder / "run"});
  CHECK(again.exit_code == 0);
  CHECK(again.out == ran.out);

  const CommandOutcome trace = lockstep({"report", folder / "run/trace.json.gz", "--json"});
  REQUIRE(trace.exit_code == 0);
  const CommandOutcome whole = lockstep({"report", folder / "run", "--json"});
  for (const char* key : {"step_time_s", "compute_s", "exposed_comm_by_rank_s", "bubble_fraction",
                          "peak_memory_bytes", "stage_span_s"}) {
    CHECK(json::parse(trace.out)[key] == json::parse(whole.out)[key]);
  }

  const CommandOutcome report = lockstep({"report", kineto, "--timeline"});
  REQUIRE(report.exit_code == 0);
  CHECK_THAT(report.out, ContainsSubstring("rank 0  ") && ContainsSubstring("645.2 us") &&
                             ContainsSubstring("kineto, 2 ranks") &&
                             ContainsSubstring("all_reduce"));
  CHECK_THAT(report.out, !ContainsSubstring("peak memory"));
  CHECK_THAT(report.err, ContainsSubstring("note: clocks aligned by the ends of 3 collectives"));

  const CommandOutcome compared = lockstep({"compare", folder / "run", kineto});
  REQUIRE(compared.exit_code == 0);
  CHECK_THAT(compared.out, ContainsSubstring("kineto: ") && ContainsSubstring("forward"));
  const CommandOutcome bad = lockstep({"report", folder / "s.toml"});
  CHECK(bad.exit_code == 2);
  CHECK_THAT(bad.err, ContainsSubstring("s.toml:1:2: not a trace"));
}

}  // namespace
}  // namespace lockstep
