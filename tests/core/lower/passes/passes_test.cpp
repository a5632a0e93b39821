// Tests every pass alone: text in, the pass, text out. The cases are in the *.txt files beside this
// one; a case reads
//
//   == what the pass does to it
//   -- scenario            a scenario's text
//   -- pass NAME [LINES]   the pass to run, and which lines to compare: all, ops (unless said
//                          otherwise), buffers, or input, which is samples and tables
//   -- in                  the state before it
//   -- out                 the state after it
//
// LOCKSTEP_REWRITE=1 writes "in" and "out" anew; read the difference before it is committed.
#include "core/lower/passes/passes.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

using namespace lockstep;
namespace fs = std::filesystem;

namespace {

struct Case {
  std::string title, scenario, pass, lines = "ops", in, out;
};

const fs::path kFolder = fs::path(LOCKSTEP_SOURCE_DIR) / "tests/core/lower/passes";

std::vector<fs::path> files() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".txt") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<Case> read(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::vector<Case> cases;
  std::string* section = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("== ")) {
      cases.emplace_back();
      cases.back().title = line.substr(3);
      section = nullptr;
    } else if (line.starts_with("-- ")) {
      REQUIRE(!cases.empty());
      std::istringstream words(line.substr(3));
      std::string what;
      words >> what;
      section = what == "scenario" ? &cases.back().scenario
                : what == "in"     ? &cases.back().in
                : what == "out"    ? &cases.back().out
                                   : nullptr;
      if (what == "pass") words >> cases.back().pass >> cases.back().lines;
    } else if (section != nullptr) {
      *section += line + "\n";
    }
  }
  return cases;
}

void write(const fs::path& path, const std::vector<Case>& cases) {
  std::ofstream file(path);
  for (const Case& c : cases) {
    file << "== " << c.title << "\n-- scenario\n" << c.scenario << "-- pass " << c.pass;
    if (c.lines != "ops") file << " " << c.lines;
    file << "\n-- in\n" << c.in << "-- out\n" << c.out;
  }
}

/// The lines of a program's text that are asked for, and those of the roles to which they belong.
std::string chosen(const std::string& text, const std::string& lines) {
  if (lines == "all" || !text.starts_with("lockstep_program")) return text;
  std::istringstream in(text);
  std::string result;
  for (std::string line; std::getline(in, line);) {
    const bool op = line.starts_with("  %") && !line.starts_with("  %b");
    const bool buffer = line.starts_with("  %b") || line.starts_with("  unit ");
    const bool given = line.starts_with("samples ") || line.starts_with("table ");
    const bool role = line.starts_with("role ") && lines != "input";
    if (role || (lines == "ops" ? op : lines == "buffers" ? buffer : given)) result += line + "\n";
  }
  return result;
}

/// The states before and after the case's pass.
std::pair<std::string, std::string> run(const Case& c) {
  const LoadedScenario loaded = parse_scenario(c.scenario, c.title, {});
  for (const Error& error : loaded.errors) FAIL(to_string(error));
  const Scenario& scenario = loaded.points.front().scenario;
  REQUIRE(find_pass(c.pass) != nullptr);
  Draft draft(scenario);
  std::string before;
  for (const LoweringPass& pass : passes()) {
    const Result<void> done = pass.run(draft);
    if (!done) return {before, to_string(done.error()) + "\n"};
    const std::string after = chosen(pass.print(draft), c.lines);
    if (pass.name == c.pass) return {before, after};
    before = after;
  }
  return {};
}

}  // namespace

TEST_CASE("each pass turns its text into the text beside it", "[core][lower]") {
  std::set<std::string> covered;
  for (const fs::path& path : files()) {
    std::vector<Case> cases = read(path);
    for (Case& c : cases) {
      INFO(path.filename().string() << ": " << c.title);
      CHECK(c.pass == path.stem().string());
      covered.insert(c.pass);
      const auto [in, out] = run(c);
      if (std::getenv("LOCKSTEP_REWRITE") != nullptr) {
        c.in = in;
        c.out = out;
        continue;
      }
      CHECK(c.in == in);
      CHECK(c.out == out);
      CHECK(c.in != c.out);  // a case in which the pass does nothing shows nothing
    }
    if (std::getenv("LOCKSTEP_REWRITE") != nullptr) write(path, cases);
  }
  for (const LoweringPass& pass : passes()) {
    INFO(pass.name);
    CHECK(covered.contains(std::string(pass.name)));
  }
}

TEST_CASE("the program verifies after every pass that leaves a whole one", "[core][lower]") {
  const auto sound = [](const std::string& parallelism, const std::string& rest = "") {
    const std::string text =
        "[model]\npreset = \"gpt2-tiny\"\nlayers = 4\ntied_embeddings = false\n[training]\nseq_len "
        "= "
        "8\nlocal_batch_size = 8\n" +
        rest + "[parallelism]\n" + parallelism + "[cluster]\nranks_per_device = 64\n";
    INFO(text);
    const LoadedScenario loaded = parse_scenario(text, "layout", {});
    for (const Error& error : loaded.errors) FAIL(to_string(error));
    const auto program = lower_verifying_passes(loaded.points.front().scenario);
    if (!program) FAIL(to_string(program.error()));
  };
  for (const std::string pipeline :
       {"", "pipeline_parallel_degree = 2\npipeline_parallel_microbatches = 4\n",
        "pipeline_parallel_degree = 2\npipeline_parallel_microbatches = 4\n"
        "pipeline_parallel_schedule = \"ZBVZeroBubble\"\npipeline_parallel_virtual_stages = 2\n",
        "pipeline_parallel_degree = 2\npipeline_parallel_microbatches = 4\n"
        "pipeline_parallel_schedule = \"DualPipe\"\n"}) {
    sound(pipeline + "data_parallel_replicate_degree = 2\ntensor_parallel_degree = 2\n");
    sound(pipeline + "context_parallel_degree = 2\noffload = \"optimizer\"\n");
    for (const std::string stage : {"1", "2", "3"}) {
      const std::string zero =
          pipeline + "data_parallel_shard_degree = 2\nzero_stage = " + stage + "\n";
      sound(zero);
      sound(zero, "mixed_precision_param = \"bfloat16\"\nmax_norm = 0.0\n");
      sound(zero + "data_parallel_replicate_degree = 2\noverlap_grad_reduce = false\n");
      sound(zero + "offload = \"optimizer\"\n");
      sound(zero + "offload = \"optimizer\"\noffload_optimizer_device = \"nvme\"\n");
    }
    sound(pipeline + "data_parallel_shard_degree = 2\noffload = \"parameters\"\n",
          "mixed_precision_param = \"bfloat16\"\n");
    sound(pipeline + "data_parallel_shard_degree = 2\noffload = \"parameters\"\n" +
              "offload_optimizer_device = \"nvme\"\noffload_param_device = \"nvme\"\n",
          "mixed_precision_param = \"bfloat16\"\n");
  }
  sound(
      "pipeline_parallel_degree = 2\npipeline_parallel_microbatches = 4\n"
      "pipeline_parallel_schedule = \"PipeDream\"\n",
      "max_norm = 0.0\n");
}

TEST_CASE("two different functions of one name are a fault that names both", "[core][lower]") {
  ProgramBuilder build;
  const auto fill = [](std::int64_t elements) {
    Kernel kernel;
    kernel.kind = KernelKind::Fill;
    kernel.dims = {elements};
    kernel.out = {{0, DType::F32, 0}};
    return Function{"zero", {{"y", Access::Write, Bytes{4 * elements}}}, {kernel}};
  };
  const FunctionId first = build.function(fill(8));
  CHECK(build.function(fill(8)) == first);
  CHECK(!build.fault());
  CHECK(build.function(fill(16)) == first);
  REQUIRE(build.fault());
  CHECK(build.fault()->kind == ErrorKind::Internal);
  CHECK(build.fault()->message ==
        "two different functions have one name: zero(y 32: fill float32) and zero(y 64: fill "
        "float32)");
}

TEST_CASE("the documents list the passes as the table does", "[core][lower]") {
  std::ifstream file(fs::path(LOCKSTEP_SOURCE_DIR) / "docs/passes.md");
  REQUIRE(file.good());
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `")) rows.push_back(line);
  }
  std::vector<std::string> expected;
  for (const LoweringPass& pass : passes()) {
    expected.push_back("| `" + std::string(pass.name) + "` | " + std::string(pass.does) + " |");
  }
  CHECK(rows == expected);
}
