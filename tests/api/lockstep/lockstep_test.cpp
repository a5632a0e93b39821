#include "lockstep/lockstep.hpp"

#include <numeric>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep::api {
namespace {

TEST_CASE("a synthetic 1F1B pipeline takes (m + p - 1)(tF + tB) through the library too", "[api]") {
  const Result<Scenario> scenario = Scenario::parse(lockstep::test::kSynthetic);
  REQUIRE(scenario.ok());
  CHECK(scenario->ranks() == 4);
  const Result<Run> run = simulate(*scenario);
  REQUIRE(run.ok());
  CHECK(std::abs(run->figures().step_time_s - 33) < 1e-9);
  CHECK(std::abs(run->figures().bubble_fraction - 3.0 / 11) < 1e-9);
  const Timeline t = run->timeline();
  std::int64_t busy = 0;
  for (std::size_t i = 0; i < t.begin_ps.size(); ++i) {
    if (t.streams[std::size_t(t.stream[i])] == "compute") busy += t.end_ps[i] - t.begin_ps[i];
  }
  CHECK(busy == std::int64_t{4 * 8 * 3} * 1'000'000'000'000);
}

TEST_CASE("the library's faults are the command line's, all of them, with their places", "[api]") {
  const TemporaryFolder folder;
  const std::string path = folder / "bad.toml";
  write_bytes(path, "[model]\npreset = \"gpt2-tiny\"\nlayer = 3\n[training]\nseq_length = 8\n");
  const Result<Scenario> scenario = Scenario::load(path);
  REQUIRE(!scenario.ok());
  REQUIRE(scenario.faults().size() == 2);
  CHECK(scenario.faults()[0].line == 3);
  CHECK(scenario.faults()[1].line == 5);
  const auto said = lockstep::test::lockstep({"run", path});
  for (const Fault& fault : scenario.faults()) {
    CHECK_THAT(said.err, ContainsSubstring(to_string(fault)));
  }
}

TEST_CASE("a program is the same after its text, and its faults are named", "[api]") {
  const Result<Scenario> scenario = Scenario::parse(lockstep::test::kTiny);
  REQUIRE(scenario.ok());
  const Result<Program> program = Program::lower(*scenario);
  REQUIRE(program.ok());
  CHECK(program->ranks() == 4);
  CHECK(program->verify().empty());
  const Result<Program> again = Program::parse(program->text());
  REQUIRE(again.ok());
  CHECK(again->hash() == program->hash());
  // Without its sends, receives wait for ever.
  std::string text = program->text(), without;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" send ") != std::string::npos) {
      const auto at = line.find(" send ");
      line.replace(at, 6, " sendd ");
    }
    without += line + "\n";
  }
  const Result<Program> broken = Program::parse(without);
  REQUIRE(!broken.ok());
  CHECK(broken.faults().front().kind == FaultKind::Parse);
  CHECK(broken.faults().front().line > 1);
}

TEST_CASE("a sweep is loaded as all of its points, and refused where one scenario is meant",
          "[api]") {
  const TemporaryFolder folder;
  const std::string path = folder / "sweep.toml";
  write_bytes(path, lockstep::test::kTiny + "[sweep]\n\"training.seq_len\" = [8, 16, 32]\n");
  const Result<std::vector<Scenario>> all = Scenario::load_sweep(path);
  REQUIRE(all.ok());
  REQUIRE(all->size() == 3);
  CHECK((*all)[2].label() == "training.seq_len=32");
  CHECK(!Scenario::load(path).ok());
}

TEST_CASE("a recorded trace opens with the figures that were written", "[api]") {
  const TemporaryFolder folder;
  const Result<Scenario> scenario = Scenario::parse(lockstep::test::kTiny);
  const Result<Run> run = simulate(*scenario);
  REQUIRE(run.ok());
  REQUIRE(run->write_trace(folder / "trace.json.gz").empty());
  const Result<Run> opened = Run::open(folder / "trace.json.gz");
  REQUIRE(opened.ok());
  CHECK(opened->figures().step_time_s == run->figures().step_time_s);
  CHECK(opened->timeline().end_ps == run->timeline().end_ps);
  CHECK(run->write_trace(folder / "nowhere/trace.json").size() == 1);
}

TEST_CASE("a search through the library gives scenarios that take as long as it says", "[api]") {
  const Result<Scenario> scenario = Scenario::parse(
      "[model]\npreset = \"gpt2-tiny\"\n[training]\nlocal_batch_size = 8\n[parallelism]\n"
      "data_parallel_shard_degree = 8\n[cluster]\npreset = \"h100\"\n");
  REQUIRE(scenario.ok());
  SearchOptions options;
  options.only = {"pp=1"};
  options.finalists = 2;
  const auto layouts = search(*scenario, options);
  REQUIRE(layouts.ok());
  REQUIRE(layouts->size() == 2);
  CHECK((*layouts)[0].step_time_s <= (*layouts)[1].step_time_s);
  const Result<Run> best = simulate((*layouts)[0].scenario);
  REQUIRE(best.ok());
  CHECK(std::abs(best->figures().step_time_s - (*layouts)[0].step_time_s) < 1e-12);
  CHECK(!search(*scenario, {.only = {"xp=1"}}).ok());
}

}  // namespace
}  // namespace lockstep::api
