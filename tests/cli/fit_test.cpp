#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

using namespace lockstep;
using test::CommandOutcome;

namespace {

const std::string kRuns = R"([model]
preset = "gpt2-124m"
layers = 4
[training]
seq_len = 512
mixed_precision_param = "bfloat16"
[cluster]
preset = "h100"
[framework]
preset = "megatron-core"
[parallelism]
data_parallel_shard_degree = 8
)";
const std::vector<std::string> kBatches = {"2", "4", "8", "16", "24", "32"};

double simulated(const std::string& scenario, std::vector<std::string> settings) {
  std::vector<std::string> words = {"run", scenario, "--json", "--quiet"};
  for (std::string& setting : settings) {
    words.emplace_back("--set");
    words.push_back(std::move(setting));
  }
  const CommandOutcome run = test::lockstep(words);
  REQUIRE(run.exit_code == 0);
  return nlohmann::json::parse(run.out)["step_time_s"];
}

std::string batch(const std::string& size) { return "training.local_batch_size=" + size; }

/// A table of step times as a machine with other constants than its profile has them.
std::string write_runs(const TemporaryFolder& folder) {
  write_bytes(folder / "runs.toml", kRuns);
  std::string csv = "scenario,set,step_ms\n";
  for (const std::string& size : kBatches) {
    const double step =
        simulated(folder / "runs.toml",
                  {batch(size), "cluster.device.matmul_efficiency=0.5", "framework.step_us=3000"});
    csv += "runs.toml," + batch(size) + "," + std::to_string(1e3 * step) + "\n";
  }
  write_bytes(folder / "runs.csv", csv);
  return folder / "runs.csv";
}

nlohmann::json json_of(const CommandOutcome& outcome) {
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return nlohmann::json::parse(outcome.out);
}

/// What a fit makes small: squares of log(simulated / measured), linear above 0.05.
double misfit(const nlohmann::json& fit, const char* simulated) {
  double sum = 0;
  for (const auto& row : fit["rows"]) {
    const double size =
        std::abs(std::log(row[simulated].get<double>() / row["measured_s"].get<double>()));
    sum += size <= 0.05 ? size * size : 0.05 * (2 * size - 0.05);
  }
  return sum;
}

}  // namespace

TEST_CASE("fit finds a machine's constants, and its profiles simulate what was measured", "[cli]") {
  const TemporaryFolder folder;
  const std::string csv = write_runs(folder);
  const auto fit = json_of(
      test::lockstep({"fit", csv, "--fit", "matmul_efficiency,step_us", "--json", "--quiet",
                      "--out", folder / "mine.toml", "--framework-out", folder / "software.toml"}));
  CHECK(fit["constants"][0]["key"] == "device.matmul_efficiency");
  CHECK(fit["constants"][0]["value"].get<double>() == Approx(0.5).epsilon(1e-3));
  CHECK(fit["constants"][1]["value"].get<double>() == Approx(3000).epsilon(1e-2));
  CHECK(fit["figures"]["before"]["median"].get<double>() > 0.05);
  CHECK(fit["figures"]["left_out"]["median"].get<double>() < 1e-3);

  CHECK_THAT(read_bytes(folder / "mine.toml"),
             ContainsSubstring("# device.matmul_efficiency = 0.5, was "));
  std::string scenario = kRuns;
  scenario.replace(scenario.find("preset = \"h100\""), 15, "profile = \"mine.toml\"");
  scenario.replace(scenario.find("preset = \"megatron-core\""), 24, "profile = \"software.toml\"");
  write_bytes(folder / "fitted.toml", scenario);
  for (std::size_t i = 0; i < kBatches.size(); ++i) {
    CHECK(simulated(folder / "fitted.toml", {batch(kBatches[i])}) ==
          Approx(fit["rows"][i]["after_s"].get<double>()).epsilon(1e-6));
  }
}

TEST_CASE("fit without --fit takes what the rows can tell, and prints what it did", "[cli]") {
  const TemporaryFolder folder;
  const std::string csv = write_runs(folder);
  const CommandOutcome fit = test::lockstep({"fit", csv, "--rows"});
  REQUIRE(fit.exit_code == 0);
  CHECK_THAT(fit.out, ContainsSubstring("device.matmul_efficiency"));
  CHECK_THAT(fit.out, ContainsSubstring("runs.toml training.local_batch_size=16"));
  CHECK_THAT(fit.out, ContainsSubstring("left out"));
  CHECK_THAT(fit.err, ContainsSubstring("simulations in"));
  // One device's runs say nothing of the network between nodes.
  const CommandOutcome kept =
      test::lockstep({"fit", csv, "--fit", "matmul_efficiency,inter_node.latency_us", "--quiet"});
  CHECK_THAT(kept.out, ContainsSubstring("kept: no row depends on it"));
}

TEST_CASE("runs of this machine come closer to their simulation", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "tiny.toml", test::kTiny);
  std::vector<std::string> words = {"fit", "--json", "--quiet", "--out", folder / "here.toml"};
  for (const char* length : {"8", "16", "32", "64"}) {
    const std::string out = folder / (std::string("run") + length);
    const CommandOutcome run = test::lockstep(
        {"run", folder / "tiny.toml", "--backend", "cpu", "--quiet", "--out", out, "--set",
         std::string("training.seq_len=") + length, "--set", "checkpoint.interval=0"});
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    words.push_back(out);
  }
  const auto fit = json_of(test::lockstep(words));
  CHECK(fit["rows"].size() == 4);
  CHECK(misfit(fit, "after_s") <= misfit(fit, "before_s") * (1 + 1e-9));
  CHECK_THAT(read_bytes(folder / "here.toml"), ContainsSubstring("# lockstep fit, 4 rows"));
}

TEST_CASE("fit of a trace takes kernel times by shape", "[cli]") {
  const TemporaryFolder folder;
  std::string events;
  for (int i = 0; i < 5; ++i) {
    const std::string n = std::to_string(i + 1), m = std::to_string(2048 << i);
    const std::string at = std::to_string(1000 * i);
    events += (i == 0 ? "" : ",") +
              std::string(R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":)") +
              at + R"(,"dur":10,"args":{"Input Dims":[[)" + m +
              R"(,4096],[4096,4096]],"Input type":["c10::BFloat16","c10::BFloat16"]}},)" +
              R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":)" +
              at + R"(,"dur":2,"args":{"correlation":)" + n +
              R"(}},{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":)" + at +
              R"(,"dur":)" + std::to_string(500 << i) + R"(,"args":{"correlation":)" + n + "}}";
  }
  write_bytes(folder / "t.json", R"({"traceEvents":[)" + events + "]}");
  const auto fit = json_of(test::lockstep({"fit", folder / "t.json", "--cluster", "a100-80",
                                           "--fit", "matmul_efficiency", "--json", "--quiet"}));
  CHECK(fit["rows"].size() == 5);
  // 2 · 2048 · 4096² operations in 500 us are 137 of 312 TFLOP/s; tiles take a little more.
  CHECK(fit["constants"][0]["value"].get<double>() == Approx(0.44).epsilon(0.1));
  const CommandOutcome unsaid = test::lockstep({"fit", folder / "t.json"});
  CHECK(unsaid.exit_code == 2);
  CHECK_THAT(unsaid.err, ContainsSubstring("give --cluster"));
}

TEST_CASE("fit says what is wrong with its inputs", "[cli]") {
  const TemporaryFolder folder;
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "fit");
    const CommandOutcome run = test::lockstep(words);
    CHECK(run.exit_code == 2);
    return run.err;
  };
  write_bytes(folder / "bad.csv", "scenario,step_ms\nnone.toml,-1\n");
  CHECK_THAT(error({folder / "bad.csv"}),
             ContainsSubstring("bad.csv:2:11: 'step_ms' is a number above 0"));
  CHECK_THAT(error({folder / "none.csv"}), ContainsSubstring("none.csv"));
  CHECK_THAT(error({folder.path.string()}), ContainsSubstring("has no scenario.toml"));
  CHECK_THAT(error({folder / "bad.csv", "--fit", "device.matmul_eficiency"}),
             ContainsSubstring("did you mean 'device.matmul_efficiency'?"));
  write_bytes(folder / "bad.json", "{");
  CHECK_THAT(error({folder / "bad.json", "--cluster", "a100-80"}),
             ContainsSubstring("bad.json:1:"));

  write_bytes(folder / "a.toml", kRuns);
  write_bytes(folder / "two.csv",
              "scenario,step_ms,set\na.toml,1,\n"
              "a.toml,1,cluster.preset=a100-80\n");
  CHECK_THAT(error({folder / "two.csv", "--out", folder / "x.toml"}),
             ContainsSubstring("the rows have several: a100-80, h100"));
  CHECK_THAT(error({folder / "two.csv", "--source", "b.toml"}),
             ContainsSubstring("did you mean 'a.toml'?"));
  write_bytes(folder / "profile.toml", "layer_us = -1\n");
  write_bytes(folder / "s.toml", kRuns.substr(0, kRuns.find("[framework]")) +
                                     "[framework]\nprofile = \"profile.toml\"\n");
  const CommandOutcome bad = test::lockstep({"run", folder / "s.toml"});
  CHECK(bad.exit_code == 2);
  CHECK_THAT(bad.err, ContainsSubstring("profile.toml:1:12: layer_us must not be negative"));
}
