#include <nlohmann/json.hpp>

#include "cli/cli.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep {
namespace {

using test::CommandOutcome;
using test::lockstep;

/// A small campaign: two nodes, and a failure every two hours.
std::string small(const TemporaryFolder& folder) {
  std::string path = folder / "small.toml";
  write_bytes(path, R"([model]
preset = "gpt2-124m"
[training]
seq_len = 1024
local_batch_size = 16
[parallelism]
data_parallel_shard_degree = 16
[cluster]
preset = "h100"
nodes = 2
[cluster.device]
dollars_per_hour = 2
[campaign]
tokens = 300e9
job_mtbf_hours = 2
)");
  return path;
}

TEST_CASE("campaign says what a training takes and where the time goes", "[cli]") {
  const TemporaryFolder folder;
  const CommandOutcome o = lockstep({"campaign", small(folder), "--runs", "20"});
  INFO(o.err);
  REQUIRE(o.exit_code == 0);
  for (const char* text :
       {"tokens on 16 GPUs; 20 campaigns from seed 1", "one in 2 h", "GPU hours", "dollars", "kWh",
        "lost work", "restarting", "Young", "Daly", "what would help", "half as many failures"}) {
    CHECK_THAT(o.out, ContainsSubstring(text));
  }
}

TEST_CASE("the figures of campaign --json belong together", "[cli]") {
  const TemporaryFolder folder;
  const CommandOutcome o = lockstep({"campaign", small(folder), "--runs", "20", "--json"});
  REQUIRE(o.exit_code == 0);
  const auto json = nlohmann::json::parse(o.out);
  double parts = 0;
  for (const auto& [name, part] : json["parts"].items()) parts += part["mean"].get<double>();
  CHECK(parts == Approx(1));
  const double hours = json["gpu_hours"]["mean"];
  CHECK(hours == Approx(json["days"]["mean"].get<double>() * 24 * 16));
  CHECK(json["dollars"]["mean"].get<double>() == Approx(2 * hours));
  CHECK(json["kwh"]["mean"].get<double>() == Approx(0.7 * hours));
  CHECK(json["tonnes_co2"].is_null());
  CHECK(json["interruptions"]["mean"].get<double>() ==
        Approx(json["days"]["mean"].get<double>() * 12).epsilon(0.2));
  CHECK(json["goodput"]["mean"].get<double>() ==
        Approx(json["phases"][0]["goodput_renewal_theory"].get<double>()).epsilon(0.02));
  // Equal seeds give equal answers.
  CHECK(lockstep({"campaign", small(folder), "--runs", "20", "--json"}).out == o.out);
}

TEST_CASE("campaign says what it lacks", "[cli]") {
  const TemporaryFolder folder;
  const std::string path = small(folder);
  const CommandOutcome none = lockstep({"campaign", path, "--set", "campaign.tokens=0"});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, ContainsSubstring("--set campaign.tokens=15.6e12"));
  const CommandOutcome stuck =
      lockstep({"campaign", path, "--set", "campaign.job_mtbf_hours=0.01"});
  CHECK(stuck.exit_code == 2);
  CHECK_THAT(stuck.err, ContainsSubstring("makes no progress"));
}

TEST_CASE("validate lays published campaigns beside simulated ones", "[cli]") {
  const TemporaryFolder folder;
  const std::string path = folder / "campaigns.csv";
  write_bytes(path,
              "id,source,model,cluster,gpus,tokens_b,gpu_hours,seq,global_batch_seqs,tp,pp,"
              "micro_batch\n"
              "small,http://a,gpt2-124m,h100,16,10,20,1024,256,1,1,16\n"
              "free,http://b,gpt2-124m,h100,8,10,20,1024,256,,,\n");
  const CommandOutcome o = lockstep({"validate", path, "--json"});
  INFO(o.err);
  REQUIRE(o.exit_code == 0);
  const auto json = nlohmann::json::parse(o.out);
  REQUIRE(json["rows"].size() == 2);
  CHECK(json["rows"][0]["layout_given"] == true);
  CHECK(json["rows"][1]["layout_given"] == false);
  const double error = json["rows"][0]["error"];
  CHECK(json["median_error_layout_given"].get<double>() == Approx(std::abs(error)));
  CHECK(lockstep({"validate", path, "--row", "none"}).exit_code == 2);
  const CommandOutcome text = lockstep({"validate", path, "--row", "small"});
  CHECK_THAT(text.out, ContainsSubstring("median error where the layout is given"));
}

}  // namespace
}  // namespace lockstep
