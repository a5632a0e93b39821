// Tests what scripts/quickstart promises: the first answer comes before the rest is built.
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace {

namespace fs = std::filesystem;

struct Outcome {
  int status = -1;
  std::string output;
};

Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char text[512];
  while (std::fgets(text, sizeof text, pipe) != nullptr) outcome.output += text;
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

/// A tree with the script, and with a stand-in of scripts/build, which says what it builds.
struct Tree {
  Tree() {
    fs::create_directories(folder.path / "scripts");
    fs::create_directories(folder.path / "build/release/bin");
    fs::copy(LOCKSTEP_SOURCE_DIR "/scripts/quickstart", folder.path / "scripts/quickstart");
    put("build/release/bin/lockstep-quickstart", "echo \"page of: $*\"");
  }
  void put(const std::string& path, const std::string& script) const {
    write_bytes(folder / path, "#!/bin/sh\n" + script + "\n");
    fs::permissions(folder.path / path, fs::perms::owner_all);
  }
  Outcome quickstart(const std::string& options = "") const {
    return run("'" + (folder / "scripts/quickstart") + "' release " + options);
  }
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("the first answer comes before the rest of Lockstep is built", "[scripts]") {
  const Tree tree;
  tree.put("scripts/build", "echo \"build: $*\"");
  const Outcome outcome = tree.quickstart("--repeat 3");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  const std::size_t first = outcome.output.find("build: release lockstep-quickstart\n");
  const std::size_t page = outcome.output.find("page of: --repeat 3 scenarios/quickstart.toml\n");
  const std::size_t rest = outcome.output.find("Building the rest");
  CHECK((first < page && page < rest && rest != std::string::npos));
  CHECK(read_bytes(tree.folder / "build/release/rest.log") == "build: release lockstep\n");
}

TEST_CASE("a quickstart that cannot build the rest says why", "[scripts]") {
  const Tree tree;
  tree.put("scripts/build", "[ $2 = lockstep-quickstart ] || { echo 'no compiler'; exit 1; }");
  const Outcome outcome = tree.quickstart();
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output, ContainsSubstring("page of:") && ContainsSubstring("no compiler"));
}

TEST_CASE("the first answer needs neither the command line nor what only other commands use",
          "[scripts]") {
  const std::string build = fs::path(LOCKSTEP_BINARY).parent_path().parent_path().string();
  if (!fs::exists(build + "/build.ninja")) return;  // only Ninja tells what a target needs
  const Outcome outcome = run("ninja -C '" + build + "' -t commands lockstep-quickstart");
  REQUIRE(outcome.status == 0);
  CHECK_THAT(outcome.output, ContainsSubstring("lockstep_core_lower.dir"));
  for (const char* folder :
       {"cli", "core_plan", "core_fit", "core_validation", "core_handover", "core_trace_kineto",
        "core_weights", "core_tokenizer", "backends_reference", "backends_cuda", "backends_tcp"}) {
    INFO(folder);
    CHECK_THAT(outcome.output, !ContainsSubstring(std::string("lockstep_") + folder + ".dir"));
  }
  int instruction_sets = 0;
  for (const char* name : {"isa_baseline.cpp\n", "isa_v3.cpp\n", "isa_v4.cpp\n"}) {
    if (outcome.output.find(name) != std::string::npos) ++instruction_sets;
  }
  CHECK(instruction_sets == 1);
}
