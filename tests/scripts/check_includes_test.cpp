// Tests scripts/check-includes on this tree, and on small trees that break the rule.
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
  std::string output;
};

Outcome check_includes(const std::string& root, const std::string& option = "") {
  const std::string command = std::string(LOCKSTEP_SOURCE_DIR) + "/scripts/check-includes " +
                              option + " '" + root + "' 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) outcome.output += line;
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

/// A tree of two folders, core/top above core/low.
struct Tree {
  Tree() {
    put("CMakeLists.txt",
        "lockstep_folder(core/low)\n"
        "lockstep_folder(core/top      core/low\n"
        "                EXTERNAL some_library)  # continued row\n");
    put("core/low/low.hpp", "#pragma once\n#include <vector>\n");
    put("core/top/top.cpp", "#include \"core/top/top.hpp\"\n\n#include \"core/low/low.hpp\"\n");
  }
  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder.path / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Outcome check() const { return check_includes(folder.path.string()); }
  TemporaryFolder folder;
};

void check_refused(const Tree& tree, const std::string& message) {
  const Outcome outcome = tree.check();
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output, ContainsSubstring(message));
}

}  // namespace

TEST_CASE("this tree keeps the include rule", "[scripts]") {
  const Outcome outcome = check_includes(LOCKSTEP_SOURCE_DIR);
  INFO(outcome.output);
  CHECK(outcome.status == 0);
}

TEST_CASE("includes along the rows of the table are accepted", "[scripts]") {
  const Outcome outcome = Tree().check();
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output, ContainsSubstring("3 includes in 2 folders"));
}

TEST_CASE("an include outside a folder's row is refused with file and line", "[scripts]") {
  const Tree tree;
  tree.put("core/low/low.cpp", "// up\n#  include \"core/top/top.hpp\"\n");
  check_refused(tree, "core/low/low.cpp:2: core/low may not include core/top");
}

TEST_CASE("an include without its path from the root is refused", "[scripts]") {
  const Tree tree;
  tree.put("core/top/other.cpp", "#include \"top.hpp\"\n");
  check_refused(tree, "core/top/other.cpp:1: \"top.hpp\" is not in a folder of the table");
}

TEST_CASE("our own header in angle brackets is refused", "[scripts]") {
  const Tree tree;
  tree.put("core/top/other.cpp", "#include <core/low/low.hpp>\n");
  check_refused(tree, "write it in quotes");
}

TEST_CASE("a third-party header away from its home is refused", "[scripts]") {
  const Tree tree;
  for (const std::string header :
       {"toml++/toml.h", "nlohmann/json.hpp", "CLI/CLI.hpp", "Eigen/Core", "QString",
        "QtCore/QString", "cuda_runtime.h", "cublasLt.h", "nccl.h", "zlib.h", "mpi.h", "dnnl.h"}) {
    INFO(header);
    tree.put("core/top/other.cpp", "#include <" + header + ">\n");
    check_refused(tree, "core/top/other.cpp:1: " + header + " belongs to ");
  }
}

TEST_CASE("a folder without a row, and a row that names a later one, are refused", "[scripts]") {
  const Tree tree;
  tree.put("core/new/new.cpp", "#include \"core/low/low.hpp\"\n");
  check_refused(tree, "core/new has no lockstep_folder row");
  tree.put("CMakeLists.txt",
           "lockstep_folder(core/top core/low)\nlockstep_folder(core/low)\n"
           "lockstep_folder(core/new core/low)\n");
  check_refused(tree, "core/top names core/low, which has no earlier row");
}

TEST_CASE("rows of ARCHITECTURE.md that are not those of CMakeLists.txt are refused, then written",
          "[scripts]") {
  const Tree tree;
  tree.put("ARCHITECTURE.md",
           "| folder | for | may include |\n| --- | --- | --- |\n"
           "| `core/low` | a | base |\n| `core/top` | b | low (some_library) |\n");
  check_refused(tree, "ARCHITECTURE.md: the row of core/low is not that of CMakeLists.txt");
  CHECK_THAT(tree.check().output, !ContainsSubstring("the row of core/top"));
  CHECK(check_includes(tree.folder.path.string(), "--write").status == 0);
  CHECK(tree.check().status == 0);
  CHECK_THAT(read_bytes(tree.folder / "ARCHITECTURE.md"),
             ContainsSubstring("| `core/low` | a | |\n| `core/top` | b | low (some_library) |\n"));
  tree.put("ARCHITECTURE.md", "| `core/low` | a | |\n");
  check_refused(tree, "ARCHITECTURE.md: core/top has no row");
}

TEST_CASE("a tree without sources or without a table is an error, not a success", "[scripts]") {
  const TemporaryFolder empty;
  CHECK(check_includes(empty.path.string()).status == 2);
  const Tree tree;
  tree.put("CMakeLists.txt", "project(x)\n");
  CHECK(tree.check().status == 2);
}
