// Tests that one process per rank under mpirun gives the same bits as ranks that are threads.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/trace/chrome_trace.hpp"
#include "tests/catch.hpp"
#include "tests/process_runs.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

using test::metrics;
using test::scenario;

namespace fs = std::filesystem;

struct Outcome {
  int exit_code = 0;
  std::string output;  // what it wrote to stdout and stderr
};

Outcome shell(const TemporaryFolder& folder, const std::string& command) {
  const std::string log = folder / "log.txt";
  const int status = std::system(("(" + command + ") >" + log + " 2>&1").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(log)};
}

/// Runs mpirun, also as root and on fewer cores than processes, by the variables of Open MPI 4 and
/// 5, which other MPIs ignore. Leaks of MPI itself are not reported.
Outcome mpirun(const TemporaryFolder& folder, const std::string& rest) {
  return shell(folder,
               "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
               "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0 "
               "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe "
               "ASAN_OPTIONS=detect_leaks=0 timeout 120 " LOCKSTEP_MPIEXEC " " +
                   rest);
}

const std::string kLockstep = LOCKSTEP_BINARY;

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The content of a file of a checkpoint, without what tells one training from another.
std::string content_of(const std::string& path) {
  if (!path.ends_with("manifest.json")) return read_bytes(path);
  auto manifest = nlohmann::json::parse(read_bytes(path)).at("manifest");
  REQUIRE(manifest.erase("run") == 1);
  return manifest.dump();
}

}  // namespace

TEST_CASE("processes train to the losses and checkpoints of threads bit for bit", "[mpi]") {
  struct Case {
    const char* parallelism;
    int ranks;
    const char* set = "";
  };
  for (const Case& c : std::vector<Case>{
           {"data_parallel_replicate_degree = 2\n", 2},
           {"data_parallel_shard_degree = 3\n", 3},
           {"data_parallel_shard_degree = 4\nexpert_parallel_degree = 2\n", 4,
            " --set model.experts=4"},
           {"data_parallel_shard_degree = 2\npipeline_parallel_degree = 2\n"
            "pipeline_parallel_schedule = \"1F1B\"\npipeline_parallel_microbatches = 4\n",
            4}}) {
    INFO(c.parallelism);
    const TemporaryFolder folder;
    const std::string run =
        kLockstep + " run " + scenario(folder, c.parallelism) + c.set + " --backend cpu --out ";
    const Outcome threads = shell(folder, run + folder / "threads");
    INFO(threads.output);
    REQUIRE(threads.exit_code == 0);
    const std::string count = "-np " + std::to_string(c.ranks) + " ";
    const Outcome processes = mpirun(folder, count + run + folder / "processes");
    INFO(processes.output);
    REQUIRE(processes.exit_code == 0);

    CHECK(metrics(folder / "processes") == metrics(folder / "threads"));
    const auto saved = files_below(folder / "threads/checkpoints");
    CHECK(saved.size() >= 4);
    CHECK(files_below(folder / "processes/checkpoints") == saved);
    for (const std::string& name : saved) {
      CHECK(content_of(folder / ("processes/checkpoints/" + name)) ==
            content_of(folder / ("threads/checkpoints/" + name)));
    }
    CHECK(read_bytes(folder / "processes/program.txt") ==
          read_bytes(folder / "threads/program.txt"));

    // The leader has the spans and the memory of all ranks.
    const auto ours = read_chrome_trace(folder / "processes/trace.json.gz");
    const auto theirs = read_chrome_trace(folder / "threads/trace.json.gz");
    REQUIRE(ours.ok());
    REQUIRE(theirs.ok());
    CHECK(ours->peak_memory == theirs->peak_memory);
    CHECK(ours->clock_uncertainty > SimTime{0});
    REQUIRE(ours->spans.size() == theirs->spans.size());
    std::vector<std::size_t> spans_of(static_cast<std::size_t>(c.ranks));
    for (const Span& span : ours->spans) {
      ++spans_of[span.rank];
      CHECK(span.begin <= span.active);
      CHECK(span.active <= span.end);
    }
    for (const std::size_t spans : spans_of) CHECK(spans > 0);

    // One process speaks: every step is told once.
    const std::string last = "step 6/6";
    const std::size_t at = processes.output.find(last);
    REQUIRE(at != std::string::npos);
    CHECK(processes.output.find(last, at + 1) == std::string::npos);
  }
}

TEST_CASE("processes continue a run of threads as threads would", "[mpi]") {
  const TemporaryFolder folder;
  const std::string file = scenario(folder, "data_parallel_shard_degree = 2\n");
  const std::string run = kLockstep + " run " + file + " --backend cpu --quiet --out ";
  REQUIRE(shell(folder, run + folder / "whole").exit_code == 0);
  REQUIRE(shell(folder, run + folder / "parts" + " --steps 3").exit_code == 0);
  const std::string parts = folder / "parts";
  const Outcome resumed = mpirun(folder, "-np 2 " + run + parts + " --resume " + parts);
  INFO(resumed.output);
  REQUIRE(resumed.exit_code == 0);
  CHECK(metrics(parts) == metrics(folder / "whole"));
  CHECK(read_bytes(parts + "/checkpoints/step-6/model.safetensors") ==
        read_bytes(folder / "whole/checkpoints/step-6/model.safetensors"));
}

TEST_CASE("a number of processes that is not the number of ranks is refused", "[mpi]") {
  const TemporaryFolder folder;
  const std::string run =
      kLockstep + " run " + scenario(folder, "data_parallel_replicate_degree = 4\n");
  const Outcome few = mpirun(folder, "-np 2 " + run + " --backend cpu");
  CHECK(few.exit_code == 2);
  CHECK_THAT(few.output, ContainsSubstring("the program has 4 ranks, but 2 processes"));
  const Outcome simulated = mpirun(folder, "-np 4 " + run);
  CHECK(simulated.exit_code == 2);
  CHECK_THAT(simulated.output, ContainsSubstring("backend 'sim' runs in one process"));
}

TEST_CASE("an error of any process ends all of them, and the leader says which", "[mpi]") {
  const TemporaryFolder folder;
  const std::string run = " " + kLockstep + " run " +
                          scenario(folder, "data_parallel_replicate_degree = 2\n") +
                          " --backend cpu --quiet";
  const std::string endless = " --set training.steps=1000000000";

  // Process 1 cannot read its scenario; process 0 is training, or waits to.
  const Outcome unread = mpirun(folder, "-np 1" + run + endless + " : -np 1 " + kLockstep +
                                            " run missing.toml --backend cpu");
  INFO(unread.output);
  CHECK(unread.exit_code == exit_code(ErrorKind::InvalidSpec));
  CHECK_THAT(unread.output,
             ContainsSubstring("error: process 1: cannot read missing.toml: No such file"));

  const Outcome differs =
      mpirun(folder, "-np 1" + run + " : -np 1" + run + " --set training.seq_len=4");
  CHECK(differs.exit_code == exit_code(ErrorKind::InvalidSpec));
  CHECK_THAT(differs.output,
             ContainsSubstring("process 1 differs in training.seq_len: it has 4, process "
                               "0 has 8"));

  // The leader cannot write a checkpoint in the middle of training; process 1 goes on.
  std::filesystem::create_directories(folder.path / "out");
  write_bytes(folder / "out/program.txt", "of an earlier run");
  write_bytes(folder / "out/checkpoints", "a file where a folder should be");
  const std::string out = " --out " + folder / "out";
  const Outcome unsaved = mpirun(folder, "-np 2" + run + endless + out);
  INFO(unsaved.output);
  CHECK(unsaved.exit_code == exit_code(ErrorKind::InvalidSpec));
  CHECK_THAT(unsaved.output, ContainsSubstring("out/checkpoints/step-3.new"));
  CHECK_THAT(unsaved.output, !ContainsSubstring("error: process"));

  // A process that dies without a message.
  const Outcome killed = mpirun(
      folder, "-np 1" + run + endless + " : -np 1 sh -c 'timeout -s KILL 1" + run + endless + "'");
  CHECK(killed.exit_code != 0);
}

TEST_CASE("a stopped process under mpirun is named by all the others within the timeout", "[mpi]") {
  for (const int victim : {1, 0}) {
    const TemporaryFolder folder;
    const std::string run = kLockstep + " run " +
                            scenario(folder, "data_parallel_shard_degree = 3\n") +
                            " --backend cpu --quiet --steps 1000000 --out " + folder / "run";
    // Each process leaves its number before it becomes lockstep.
    write_bytes(folder / "rank.sh", "echo $$ >" + folder / "pid-" +
                                        "${OMPI_COMM_WORLD_RANK-$PMI_RANK}\nexec " + run + "\n");
    const std::string metrics_file = folder / "run/metrics.jsonl";
    write_bytes(folder / "stop.sh", "until grep -qs '\"step\":5,' " + metrics_file +
                                        "; do sleep 0.02; done\nkill -STOP $(cat " +
                                        folder / "pid-" + std::to_string(victim) + ")\n");
    const Outcome o =
        mpirun(folder, "-np 3 env LOCKSTEP_TIMEOUT_SECONDS=3 sh " + folder / "rank.sh" + " & sh " +
                           folder / "stop.sh" + " >/dev/null 2>&1; wait $!");
    INFO(o.output);
    CHECK(o.exit_code == exit_code(ErrorKind::Device));
    const std::string named = "process " + std::to_string(victim) + " is silent";
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const std::string said =
          rank == 0 ? "error: " : "process " + std::to_string(rank) + ": error: ";
      CHECK_THAT(o.output, ContainsSubstring(said));
      CHECK(fs::exists(folder / ("run/flight-" + std::to_string(rank) + ".txt")));
    }
    CHECK_THAT(o.output, ContainsSubstring(named));
  }
}

TEST_CASE("a process under mpirun that is killed ends all, and the next run goes on", "[mpi]") {
  const TemporaryFolder folder;
  const std::string run = kLockstep + " run " +
                          scenario(folder, "data_parallel_shard_degree = 2\n") +
                          " --backend cpu --quiet --set training.steps=40"
                          " --set checkpoint.interval=4 --resume auto --out ";
  REQUIRE(shell(folder, run + folder / "whole").exit_code == 0);
  write_bytes(folder / "rank.sh", "echo $$ >" + folder / "pid-" +
                                      "${OMPI_COMM_WORLD_RANK-$PMI_RANK}\nexec " + run +
                                      folder / "run" + "\n");
  const std::string start = "-np 2 sh " + folder / "rank.sh";
  write_bytes(folder / "kill.sh", "until test -e " + folder / "run/checkpoints/latest" +
                                      "; do sleep 0.02; done\nkill -KILL $(cat " +
                                      folder / "pid-1" + ")\n");
  const Outcome killed =
      mpirun(folder, start + " & sh " + folder / "kill.sh" + " >/dev/null 2>&1; wait $!");
  CHECK(killed.exit_code != 0);
  const Outcome again = mpirun(folder, start);
  INFO(again.output);
  CHECK(again.exit_code == 0);
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    CHECK(read_bytes(folder / ("run/checkpoints/step-40/" + std::string(name))) ==
          read_bytes(folder / ("whole/checkpoints/step-40/" + std::string(name))));
  }
  CHECK(metrics(folder / "run") == metrics(folder / "whole"));
}

}  // namespace lockstep
