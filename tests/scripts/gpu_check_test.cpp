// Tests what scripts/gpu-check itself promises, its table, limits and exit status, without a GPU:
// with stand-ins of nvidia-smi, of python3 and of what gpu-pack makes.
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace {

struct Outcome {
  int status = -1;
  std::string table, output;
};

struct Machine {
  Machine() {
    put("path/nvidia-smi", "echo 'Stand-in, 580.0, 1 MiB'");
    put("path/python3", "echo 'No module named torch' >&2; exit 1");
    for (const char* name : {"lockstep", "test_integration", "test_backends_cuda"}) {
      put(std::string("binaries/") + name, "echo 'All tests passed'");
    }
  }
  void put(const std::string& path, const std::string& script) const {
    const std::filesystem::path file = folder.path / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  Outcome check(const std::string& options, const std::string& toolkit = "/nowhere") const {
    const std::string root = folder.path.string();
    const std::string command = "CUDA_HOME='" + toolkit + "' PATH='" + root + "/path':$PATH '" +
                                LOCKSTEP_SOURCE_DIR + "/scripts/gpu-check' " + options + " '" +
                                root + "/binaries' '" + root + "/out' 2>&1";
    Outcome outcome;
    FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    char line[512];
    while (std::fgets(line, sizeof line, pipe) != nullptr) outcome.output += line;
    outcome.status = WEXITSTATUS(pclose(pipe));
    std::ifstream table(root + "/out/table.txt");
    while (table.getline(line, sizeof line)) outcome.table += std::string(line) + "\n";
    return outcome;
  }
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("without a GPU every step is skipped with the reason, but what the host can check",
          "[scripts]") {
  const Machine machine;
  machine.put("path/nvidia-smi", "echo 'no devices were found'; exit 6");
  const Outcome outcome = machine.check("");
  INFO(outcome.output);
  CHECK(outcome.status == 4);
  CHECK_THAT(outcome.table, ContainsSubstring("host side                          ok"));
  for (const char* step : {"kernels", "products", "parity", "nccl", "calibrate", "simulate",
                           "train", "speed", "pytorch", "sanitizer"}) {
    std::string row = std::string(step) + std::string(35, ' ');
    row.resize(35);
    CHECK_THAT(outcome.table,
               ContainsSubstring(row + "skipped  nvidia-smi finds no GPU (no devices were found)"));
  }
}

TEST_CASE("a check that fails is a row of the table, and the others run", "[scripts]") {
  const Machine machine;
  machine.put("binaries/test_integration",
              "case $1 in every*) echo 'a.cpp:1: FAILED: 1 == 2'; exit 1 ;; esac; echo passed");
  const Outcome outcome = machine.check("--only products,kernels");
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.table, ContainsSubstring("Stand-in, 580.0, 1 MiB (1 of them)"));
  CHECK_THAT(outcome.table, ContainsSubstring("a.cpp:1: FAILED: 1 == 2"));
  CHECK_THAT(outcome.table, ContainsSubstring("products with GELU                 ok"));
  CHECK_THAT(outcome.table, !ContainsSubstring("parity"));
  // Catch2 reports success if no test has the name.
  machine.put("binaries/test_integration", "echo 'No tests ran'");
  CHECK_THAT(machine.check("--only products").table, ContainsSubstring("have no such test"));
  // A later call with the same folder replaces rows of its own steps, and keeps the others.
  machine.put("binaries/test_integration", "echo passed");
  const Outcome again = machine.check("--only kernels");
  CHECK(again.status == 0);
  CHECK_THAT(again.table, !ContainsSubstring("a.cpp:1"));
  CHECK_THAT(again.table, ContainsSubstring("products with GELU"));
}

TEST_CASE("a check that does not end is stopped, and what no time is left for is skipped",
          "[scripts]") {
  const Machine machine;
  machine.put("binaries/test_integration", "echo 'row 17'; sleep 60");
  const Outcome outcome = machine.check("--seconds 4 --only kernels,products");
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.table,
             ContainsSubstring("FAILED   stopped after ") && ContainsSubstring(" s; last: row 17"));
  CHECK_THAT(outcome.table, ContainsSubstring("products with GELU                 skipped  the 4 "
                                              "seconds of this call are over"));
}

TEST_CASE("of several batches the fastest that fits is PyTorch's, too", "[scripts]") {
  const Machine machine;
  // Faster with 16 than with 8; 64 does not fit.
  machine.put("binaries/lockstep",
              "while [ $# -gt 0 ]; do\n"
              "  case $1 in --out) out=$2 ;; training.local_batch_size=*) batch=${1#*=} ;; esac\n"
              "  shift\n"
              "done\n"
              "if [ $batch = 64 ]; then exit 3; fi\n"
              "mkdir -p $out\n"
              "for step in 1 2 3 4 5; do\n"
              "  echo '{\"throughput(tps)\":'$((1000 + batch))'}'\n"
              "done >$out/metrics.jsonl\n"
              "printf '  \"tokens_per_s\": 2000,\\n  \"mfu\": 0.5\\n' >$out/report.json");
  machine.put("path/python3",
              "while [ $# -gt 0 ]; do if [ $1 = --batch ]; then batch=$2; fi; shift; done\n"
              "cat\necho \"median: 1 s/step, $batch.5 tokens/s\"");
  const Outcome outcome = machine.check("--only train,pytorch");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.table, ContainsSubstring("gpt2-124m-bfloat16, batch 32") &&
                                ContainsSubstring("1032 tokens/s, MFU 25.8 %"));
  CHECK_THAT(outcome.table, ContainsSubstring("skipped  the batch does not fit"));
  CHECK_THAT(outcome.table, ContainsSubstring("PyTorch gpt2-124m-bfloat16, batch 32"));
  CHECK_THAT(outcome.table, ContainsSubstring("PyTorch gpt2-774m-bfloat16, batch 16"));
  CHECK_THAT(outcome.table, ContainsSubstring("llama-1b-bfloat16-cudnn, batch 4"));
  machine.put("path/python3",
              "echo 'not compiled: no C compiler'; echo 'median: 1 s/step, 8 tokens/s'");
  CHECK_THAT(machine.check("--quick --only pytorch").table,
             ContainsSubstring("not compiled, 8 tokens/s"));
  // The first batch has to fit.
  machine.put("binaries/lockstep", "exit 3");
  CHECK(machine.check("--quick --only train").status == 1);
}

TEST_CASE("parity ends by itself before it would be stopped, sooner if quick", "[scripts]") {
  const Machine machine;
  machine.put("binaries/test_integration",
              "case $1 in residual*) n=images ;; *) n=layouts ;; esac\n"
              "echo \"progress: $n in $LOCKSTEP_TEST_SECONDS s\"");
  const auto table = [&](const std::string& options) {
    const Outcome outcome = machine.check("--only parity " + options);
    INFO(outcome.output);
    CHECK(outcome.status == 0);
    return outcome.table;
  };
  CHECK_THAT(table(""), ContainsSubstring("images in 60 s") && ContainsSubstring("ts in 300 s"));
  CHECK_THAT(table("--quick"),
             ContainsSubstring("images in 60 s") && ContainsSubstring("ts in 60 s"));
  CHECK_THAT(table("--seconds 60"),
             ContainsSubstring("images in 2") || ContainsSubstring("images in 30"));
  CHECK_THAT(table("--seconds 20"),
             ContainsSubstring("skipped  the 20 seconds of this call are over"));
}

TEST_CASE("the table says which libraries of the toolkit there are", "[scripts]") {
  const Machine machine;
  machine.put("toolkit/lib64/libcublasLt.so.13", "");
  machine.put("path/ldconfig", "echo '	libnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2'");
  const std::string at = machine.folder.path.string() + "/toolkit";
  CHECK_THAT(machine.check("--only speed", at).table,
             ContainsSubstring("libcublasLt.so.13 in " + at + "/lib64; libnccl.so.2 in /usr/lib"));
  machine.put("path/ldconfig", "exit 1");
  CHECK_THAT(machine.check("--only speed").table,
             ContainsSubstring("NO libcublasLt.so.13; NO libnccl.so.2"));
}

TEST_CASE("what compare says of a simulation and its run is one row", "[scripts]") {
  const Machine machine;
  machine.put("binaries/lockstep",
              "if [ $1 = calibrate ]; then touch \"$5\"; fi\n"
              "if [ $1 != compare ]; then exit 0; fi\n"
              "cat <<END\n"
              "program      equal  1f\nop order     equal  per rank\npeak memory  equal  to the "
              "byte\n\nstep time     4.2 ms  4.3 ms     +2.4 %\n\n"
              "op kind     count A  count B    time A    time B       change  waiting A\n"
              "forward          12       12  2.308 ms   2.36 ms       +2.3 %        0 s\n"
              "optimizer         2        2  1.089 ms  1.060 ms       -2.7 %        0 s\n\n"
              "rank  compute A\n   0   4.069 ms   10.79 ms     +165.1 %   152.1 us\nEND");
  const Outcome outcome = machine.check("--quick --only calibrate,simulate");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.table,
             ContainsSubstring("op order equal; peak memory equal; step time 4.2 ms 4.3 ms +2.4 %; "
                               "forward +2.3 %; optimizer -2.7 %\n"));
}

TEST_CASE("what a machine lacks is skipped with the reason", "[scripts]") {
  const Machine machine;
  machine.put("binaries/lockstep", "echo 'error: no such thing' >&2; exit 4");
  const Outcome outcome = machine.check("--only nccl,calibrate,simulate,pytorch,sanitizer");
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.table,
             ContainsSubstring("NCCL, a process per GPU            skipped  one GPU"));
  CHECK_THAT(outcome.table, ContainsSubstring("error: no such thing"));
  CHECK_THAT(outcome.table, ContainsSubstring("gpu.toml: --only calibrate,simulate"));
  CHECK_THAT(outcome.table, ContainsSubstring("skipped  python3: No module named torch"));
  CHECK_THAT(outcome.table, ContainsSubstring("no compute-sanitizer in /nowhere"));
}

TEST_CASE("gpu-check refuses what it does not know", "[scripts]") {
  const Machine machine;
  for (const auto& [options, message] :
       {std::pair{"--only kernels,matrices", "no step 'matrices'; there are: host kernels"},
        std::pair{"--seconds soon", "--seconds takes a number"},
        std::pair{"--fast", "no option"}}) {
    const Outcome outcome = machine.check(options);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.output, ContainsSubstring(message));
  }
  std::filesystem::remove(machine.folder.path / "binaries/lockstep");
  const Outcome outcome = machine.check("");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.output, ContainsSubstring("scripts/gpu-pack makes it"));
}
