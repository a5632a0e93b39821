// Tests that one process per rank, with torchrun's variables and without MPI, gives the same bits
// as ranks that are threads.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.hpp"
#include "tests/process_runs.hpp"
#include "tests/tcp/process_group.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

using test::metrics;
using test::Outcome;
using test::scenario;
using test::shell;
using test::torchrun;

const std::string kLockstep = LOCKSTEP_BINARY;

}  // namespace

TEST_CASE("processes over TCP train to the losses and checkpoints of threads bit for bit",
          "[tcp]") {
  struct Case {
    const char* parallelism;
    std::size_t ranks;
  };
  for (const Case& c :
       std::vector<Case>{{"data_parallel_shard_degree = 3\n", 3},
                         {"tensor_parallel_degree = 2\npipeline_parallel_degree = 2\n"
                          "pipeline_parallel_microbatches = 4\n",
                          4}}) {
    INFO(c.parallelism);
    const TemporaryFolder folder;
    const std::string run =
        kLockstep + " run " + scenario(folder, c.parallelism) + " --backend cpu --out ";
    const Outcome threads = shell(folder / "log.txt", run + folder / "threads");
    INFO(threads.output);
    REQUIRE(threads.exit_code == 0);
    const auto outcomes = torchrun(folder, std::vector(c.ranks, run + folder / "processes"));
    for (const Outcome& outcome : outcomes) {
      INFO(outcome.output);
      REQUIRE(outcome.exit_code == 0);
    }
    CHECK(metrics(folder / "processes") == metrics(folder / "threads"));
    for (const char* name : {"/checkpoints/step-6/model.safetensors", "/program.txt"}) {
      const std::string bytes = read_bytes(folder / "threads" + name);
      CHECK(!bytes.empty());
      CHECK(read_bytes(folder / "processes" + name) == bytes);
    }
    // The leader speaks, the others are silent.
    CHECK_THAT(outcomes[0].output, ContainsSubstring(std::to_string(c.ranks) + " processes"));
    CHECK_THAT(outcomes[0].output, ContainsSubstring("step 6/6"));
    for (std::size_t i = 1; i < c.ranks; ++i) CHECK(outcomes[i].output.empty());
  }
}

TEST_CASE("processes over TCP run a program's text as they run its scenario", "[tcp]") {
  const TemporaryFolder folder;
  const std::string source = scenario(folder, "data_parallel_shard_degree = 2\n");
  const std::string program = folder / "p.program";
  REQUIRE(shell(program, kLockstep + " show program " + source).exit_code == 0);
  const std::string end = " --backend cpu --quiet --out ";
  REQUIRE(shell(folder / "log.txt", kLockstep + " run " + source + end + folder / "a").exit_code ==
          0);
  const auto outcomes = torchrun(
      folder, std::vector<std::string>(2, kLockstep + " run " + program + end + folder / "b"));
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
  }
  CHECK(metrics(folder / "a") == metrics(folder / "b"));
}

TEST_CASE("an error of any process over TCP ends all of them with its exit code", "[tcp]") {
  const TemporaryFolder folder;
  const std::string run = kLockstep + " run " +
                          scenario(folder, "data_parallel_replicate_degree = 2\n") +
                          " --backend cpu --quiet";
  const std::string endless = run + " --set training.steps=1000000000";
  const int invalid = exit_code(ErrorKind::InvalidSpec);

  const auto unread = torchrun(folder, {endless, kLockstep + " run missing.toml --backend cpu"});
  INFO(unread[0].output);
  CHECK(unread[0].exit_code == invalid);
  CHECK(unread[1].exit_code == invalid);
  CHECK_THAT(unread[0].output,
             ContainsSubstring("error: process 1: cannot read missing.toml: No such file"));

  const auto differs = torchrun(folder, {run, run + " --set training.seq_len=4"});
  CHECK(differs[0].exit_code == invalid);
  CHECK(differs[1].exit_code == invalid);
  CHECK_THAT(differs[0].output,
             ContainsSubstring("process 1 differs in training.seq_len: it has 4, process 0 "
                               "has 8"));

  // A process that dies without a message.
  const auto killed = torchrun(folder, {endless, "timeout -s KILL 2 " + endless});
  CHECK(killed[0].exit_code == exit_code(ErrorKind::Device));
  CHECK_THAT(killed[0].output, ContainsSubstring("process 1"));
  CHECK_THAT(killed[0].output, ContainsSubstring("has gone"));
}

TEST_CASE("a number of processes that is not the number of ranks is refused over TCP", "[tcp]") {
  const TemporaryFolder folder;
  const std::string run =
      kLockstep + " run " + scenario(folder, "data_parallel_replicate_degree = 4\n");
  const auto few = torchrun(folder, std::vector<std::string>(2, run + " --backend cpu"));
  CHECK(few[0].exit_code == 2);
  CHECK_THAT(few[0].output, ContainsSubstring("the program has 4 ranks, but 2 processes"));
  const auto alone = shell(folder / "log.txt", "RANK=0 WORLD_SIZE=2 " + run + " --backend cpu");
  CHECK(alone.exit_code == 2);
  CHECK_THAT(alone.output, ContainsSubstring("MASTER_PORT is not set"));
}

}  // namespace lockstep
