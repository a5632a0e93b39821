#include "core/campaign/plan.hpp"

#include <fstream>
#include <map>

#include "core/campaign/closed_forms.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

const char* const kScenario = R"([model]
preset = "gpt2-124m"
[training]
seq_len = 1024
local_batch_size = 4
[parallelism]
data_parallel_shard_degree = 16
[cluster]
preset = "h100"
nodes = 2
)";

Scenario scenario_of(const std::string& campaign) {
  LoadedScenario loaded = parse_scenario(kScenario + campaign, "plan.toml", {});
  if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
  return loaded.points.front().scenario;
}

/// A step takes 2 s, a checkpoint has 16 GB, of which the fullest rank has one.
Result<StepFacts> two_seconds(const Scenario& /*scenario*/) {
  return StepFacts{{2}, {16'000'000'000}, {1'000'000'000}};
}

CampaignPlan plan_of(const std::string& campaign) {
  const Result<CampaignFacts> facts = campaign_facts(scenario_of(campaign), two_seconds);
  if (!facts) FAIL(to_string(facts.error()));
  return plan_campaign(*facts);
}

TEST_CASE("a phase has the steps that its tokens need", "[core][campaign]") {
  // 16 GPUs with 4 sequences of 1,024 tokens each: 65,536 tokens a step.
  const CampaignPlan plan = plan_of("[campaign]\ntokens = 65_536_001\n");
  REQUIRE(plan.phases.size() == 1);
  CHECK(plan.phases[0].steps == 1001);
  CHECK(plan.phases[0].gpus == 16);
  CHECK(plan.phases[0].gpus_per_node == 8);
  CHECK(plan.phases[0].watts_per_gpu == 700);
  Scenario trained = scenario_of("");
  trained.training.total_tokens = 6'553'600;
  const Result<CampaignFacts> facts = campaign_facts(trained, two_seconds);
  REQUIRE(facts.ok());
  CHECK(plan_campaign(*facts).phases[0].steps == 100);
}

TEST_CASE("phases divide the tokens, each with its batch", "[core][campaign]") {
  const CampaignPlan plan = plan_of(R"([campaign]
tokens = 6_553_600
[[campaign.phase]]
name = "short"
seq_len = 512
tokens = 3_276_800
[[campaign.phase]]
global_batch_size = 128
share = 0.2
[[campaign.phase]]
)");
  REQUIRE(plan.phases.size() == 3);
  CHECK(plan.phases[0].name == "short");
  CHECK(plan.phases[0].steps == 100);  // of 32,768 tokens
  CHECK(plan.phases[1].name == "2");
  CHECK(plan.phases[1].steps == 10);  // of 131,072
  CHECK(plan.phases[2].steps == 30);  // the rest
}

TEST_CASE("a phase may have a scenario of its own", "[core][campaign]") {
  const TemporaryFolder folder;
  const std::string path = folder / "half.toml";
  std::ofstream(path) << R"([model]
preset = "gpt2-124m"
[training]
local_batch_size = 4
[parallelism]
data_parallel_shard_degree = 8
[cluster]
preset = "a100-80"
)";
  const CampaignPlan plan = plan_of(
      "device = { dollars_per_hour = 2 }\n[campaign]\ntokens = 6_553_600\n[[campaign.phase]]\n"
      "scenario = \"" +
      path + "\"\n");
  CHECK(plan.phases[0].gpus == 8);
  CHECK(plan.phases[0].watts_per_gpu == 400);
  CHECK(plan.phases[0].dollars_per_gpu_hour == 2);  // as the campaign's own
  CHECK(plan.phases[0].steps == 200);
}

TEST_CASE("saving goes by size, storage and whether it is in the background", "[core][campaign]") {
  const CampaignPhase blocking =
      plan_of(
          "[campaign]\ntokens = 1e12\nstorage_gb_s_per_node = 2\nload_s = 100\nrequeue_s = 7\n"
          "warmup_s = 3\ncommunicator_ms_per_gpu = 500\n")
          .phases[0];
  CHECK(to_seconds(blocking.pause).v == Approx(4));  // 16 GB to two nodes' 4 GB/s
  CHECK(blocking.late == CampaignTime{0});
  CHECK(to_seconds(blocking.restart).v == Approx(100 + 7 + 3 + 8 + 4));
  const Scenario s = scenario_of("");
  const CampaignPhase background =
      plan_of("[campaign]\ntokens = 1e12\nstorage_gb_s_per_node = 2\nsave = \"background\"\n")
          .phases[0];
  CHECK(to_seconds(background.pause).v == Approx(1e9 / s.cluster.device.host_bandwidth.v));
  CHECK(to_seconds(background.late).v == Approx(4));
  const CampaignPhase drives =
      plan_of(
          "drives = { count = 4, read_gb_s = 2, write_gb_s = 1 }\n[campaign]\ntokens = 1e12\n"
          "save_to = \"drives\"\nload_s = 0\n")
          .phases[0];
  CHECK(to_seconds(drives.pause).v == Approx(2));    // eight drives
  CHECK(to_seconds(drives.restart).v == Approx(1));  // are read twice as fast
}

TEST_CASE("the interval is the scenario's, or Daly's", "[core][campaign]") {
  const char* const fails = "[campaign]\ntokens = 1e12\njob_mtbf_hours = 2\n";
  const CampaignPhase daly = plan_of(fails).phases[0];
  CHECK_FALSE(daly.given_interval);
  // Saving 16 GB to two nodes' 2 GB/s takes 8 s.
  CHECK(daly.interval == Approx(daly_interval({8}, {7200}).v / 2).margin(0.5));
  const CampaignPhase given =
      plan_of(std::string(fails) + "[checkpoint]\ninterval = 77\n").phases[0];
  CHECK(given.interval == 77);
  CHECK(given.given_interval);
  // One file is written before the next begins: 8 s are four steps.
  CHECK(plan_of("[checkpoint]\ninterval = 1\n[campaign]\ntokens = 1e12\nsave = \"background\"\n")
            .phases[0]
            .interval == 4);
}

TEST_CASE("slow GPUs and evaluations lengthen a step", "[core][campaign]") {
  const CampaignPhase phase =
      plan_of(
          "[campaign]\ntokens = 1e12\nstraggler_share = 0.01\nstraggler_slowdown = 1.5\n"
          "evaluation_interval = 100\nevaluation_s = 30\n")
          .phases[0];
  const double any = 1 - std::pow(0.99, 16);  // that one of 16 is slow
  CHECK(to_seconds(phase.slowed).v == Approx(2 * 0.5 * any));
  CHECK(to_seconds(phase.evaluation).v == Approx(0.3));
}

TEST_CASE("what a campaign lacks is said", "[core][campaign]") {
  const auto fault = [](const std::string& campaign) {
    const Result<CampaignFacts> facts = campaign_facts(scenario_of(campaign), two_seconds);
    REQUIRE_FALSE(facts.ok());
    return facts.error().message;
  };
  CHECK_THAT(fault(""), ContainsSubstring("--set campaign.tokens=15.6e12"));
  CHECK_THAT(fault("[campaign]\ntokens = 1e9\n[[campaign.phase]]\nglobal_batch_size = 65\n"),
             ContainsSubstring("phase '1': "));
}

TEST_CASE("an oracle is asked once for each phase", "[core][campaign]") {
  std::map<int, int> asked;  // by sequence length
  const auto oracle = [&](const Scenario& s) -> Result<StepFacts> {
    ++asked[s.training.seq_len];
    return two_seconds(s);
  };
  const Scenario s = scenario_of(
      "[campaign]\ntokens = 1e9\n[[campaign.phase]]\nshare = 0.5\n"
      "[[campaign.phase]]\nseq_len = 512\n");
  REQUIRE(campaign_facts(s, oracle).ok());
  CHECK(asked == std::map<int, int>{{512, 1}, {1024, 1}});
}

}  // namespace
}  // namespace lockstep
