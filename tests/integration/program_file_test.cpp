// Tests programs as texts: printed ones run as the scenarios from which they come, and those that
// people write run, too.
#include <fstream>
#include <iterator>

#include "backends/backends.hpp"
#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"
#include "tests/integration/parity_runs.hpp"

namespace lockstep {
namespace {

using test::Outcome;

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/" + path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

Program parsed(const std::string& text) {
  auto program = parse_program(text);
  if (!program) FAIL(to_string(program.error()));
  for (const Error& fault : verify(*program)) FAIL(fault.message);
  return std::move(*program);
}

RunResult run(const std::string& backend, const Program& program, int steps,
              const ClusterSpec& cluster = {}) {
  RunOptions options;
  options.steps = steps;
  options.return_state = true;
  options.drive_folder = std::filesystem::temp_directory_path().string();
  auto result = (*make_backend(backend))->run(program, cluster, options);
  if (!result) FAIL(to_string(result.error()));
  return std::move(*result);
}

std::vector<double> losses(const RunResult& run) {
  std::vector<double> list;
  for (const StepResult& step : run.trace.steps) list.push_back(step.loss);
  return list;
}

}  // namespace

TEST_CASE("a printed program trains to the bits of its scenario, and is simulated to its bytes",
          "[integration]") {
  // Every fifth row; the whole run follows from program and cluster, which the types say.
  std::size_t i = 0;
  const auto check = [&](Architecture kind, const test::ParityRow& row) {
    if (i++ % 5 != 0) return;
    INFO(row.name);
    const Scenario s = test::parity_scenario(kind, row, DType::F32);
    const auto lowered = lower(s);
    REQUIRE(lowered.ok());
    const Program read = parsed(print(*lowered));
    CHECK(read == *lowered);
    const RunResult a = run("cpu", *lowered, 2), b = run("cpu", read, 2);
    CHECK(a.state == b.state);
    CHECK(losses(a) == losses(b));
    CHECK(a.trace.program_hash == b.trace.program_hash);
    CHECK(run("sim", *lowered, 1, s.cluster).trace == run("sim", read, 1, s.cluster).trace);
  };
  for (const test::ParityRow& row : test::parity_rows()) {
    check(i % 2 == 0 ? Architecture::Gpt2 : Architecture::Llama, row);
  }
  for (const test::ParityRow& row : test::image_rows()) check(Architecture::Resnet, row);
  for (const test::ParityRow& row : test::patch_rows()) check(Architecture::Vit, row);
}

TEST_CASE("a ring of tensor-parallel products trains as the same model on one rank",
          "[integration]") {
  const Program ring = parsed(file_text("scenarios/programs/ring.program"));
  const Program alone = parsed(file_text("scenarios/programs/alone.program"));
  CHECK(ring.mesh.world_size() == 3);
  constexpr int kSteps = 20;
  const RunResult a = run("cpu", ring, kSteps), b = run("cpu", alone, kSteps);
  for (std::size_t step = 0; step < kSteps; ++step) {
    CHECK(losses(a)[step] == Approx(losses(b)[step]).epsilon(1e-12));
  }
  CHECK(losses(a).back() < 0.5 * losses(a).front());
  CHECK(test::state_distance(a.state, b.state) < 1e-12);
  // Parts of the parameters stay at home: a third of the moments on every rank.
  CHECK(ring.roles[0].units[0].shard_elements * 3 == alone.roles[0].units[0].shard_elements);

  const ClusterSpec cluster =
      test::parity_scenario(Architecture::Gpt2, test::parity_row("", "pp=3"), DType::F32).cluster;
  const Trace simulated = run("sim", ring, 1, cluster).trace;
  CHECK(simulated.spans.size() == 3 * ring.roles[0].ops.size());
}

TEST_CASE("the example of docs/program-text.md trains to the entropy of its data",
          "[integration]") {
  const std::string page = file_text("docs/program-text.md");
  const std::string fence = "```text bigram.program\n";
  const std::size_t begin = page.find(fence) + fence.size();
  const Program program = parsed(page.substr(begin, page.find("```\n", begin) - begin));
  REQUIRE(program.training.steps > 0);
  const std::vector<double> list = losses(run("cpu", program, program.training.steps));
  // Seven of eight synthetic tokens follow from the one before, the eighth is any of V = 16. A
  // table of V × V can learn that, to a loss of -(7/8 + 1/8V) log(7/8 + 1/8V) - (V - 1)/8V
  // log(1/8V) nats.
  const double any = 1.0 / 128, next = 7.0 / 8 + any;
  const double entropy = -next * std::log(next) - 15 * any * std::log(any);
  CHECK(list.front() > std::log(16));
  CHECK(list.back() == Approx(entropy).margin(0.35));
}

TEST_CASE("data that a program does not describe are refused before the run", "[integration]") {
  std::string text = file_text("scenarios/programs/alone.program");
  const std::size_t line = text.find("samples tokens");
  text.erase(line, text.find('\n', line) + 1 - line);
  const auto result = (*make_backend("cpu"))->run(parsed(text), {}, {});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().kind == ErrorKind::InvalidSpec);
  CHECK_THAT(result.error().message, ContainsSubstring("a line \"samples\" is missing"));
}

}  // namespace lockstep
