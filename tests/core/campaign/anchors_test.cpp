#include "core/campaign/anchors.hpp"

#include "core/validation/row_choice.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

const std::string kHeading =
    "id,source,model,cluster,gpus,tokens_b,gpu_hours,seq,global_batch_seqs,tp,pp,micro_batch\n";

CampaignRows rows_of(const std::string& lines) {
  const Result<CsvTable> table = parse_csv(kHeading + lines, "campaigns.csv");
  if (!table) FAIL(to_string(table.error()));
  CHECK(has_campaigns(*table));
  return read_campaign_rows(*table);
}

Result<StepFacts> one_second(const Scenario& /*scenario*/) { return StepFacts{{1}, {}, {}}; }

AnchorTools tools() {
  return {[](const Scenario& scenario) -> Result<Scenario> {
            Scenario found = scenario;
            found.strategy.data_parallel_shard_degree = scenario.cluster.capacity();
            return found;
          },
          [](const Scenario&) { return std::string("a layout"); }, one_second};
}

TEST_CASE("GPU hours are those of a step, times steps and GPUs", "[core][campaign]") {
  // 64 sequences of 1,024 tokens a step: 36,000 steps of a second are ten hours on 16 GPUs.
  const std::string tokens = std::to_string(36000.0 * 65536 / 1e9);
  const CampaignRows read = rows_of("a,http://a,gpt2-124m,h100,16," + tokens +
                                    ",200,1024,64,2,1,4\n"
                                    "b,http://b,gpt2-124m,h100,16," +
                                    tokens + ",100,1024,64,,,\n");
  REQUIRE(read.errors.empty());
  const AnchoredCampaign given = anchor_campaign(read.rows[0], "", tools(), 3);
  REQUIRE_FALSE(given.fault);
  CHECK(given.row.has_layout());
  CHECK(*given.gpu_hours == Approx(160).epsilon(1e-3));
  CHECK(*given.error() == Approx(-0.2).epsilon(1e-3));
  const AnchoredCampaign searched = anchor_campaign(read.rows[1], "", tools(), 3);
  REQUIRE_FALSE(searched.fault);
  CHECK_FALSE(searched.row.has_layout());
  CHECK(*searched.error() == Approx(0.6).epsilon(1e-3));
}

TEST_CASE("a layout in a row is the scenario's", "[core][campaign]") {
  const CampaignRows read = rows_of("a,http://a,gpt2-124m,h100,16,1,2,1024,64,2,2,2\n");
  REQUIRE(read.errors.empty());
  const Result<Scenario> s = anchor_scenario(read.rows[0], "");
  REQUIRE(s.ok());
  CHECK(s->strategy.tensor_parallel_degree == 2);
  CHECK(s->strategy.pipeline_parallel_degree == 2);
  CHECK(s->strategy.data_parallel_shard_degree == 4);
  CHECK(s->strategy.pipeline_parallel_microbatches == 8);  // 64 sequences over 4 ranks, 2 at a time
  CHECK(s->global_batch_size() == 64);
  CHECK(s->campaign.tokens == 1e9);
}

TEST_CASE("faults of a table of campaigns have their places", "[core][campaign]") {
  const CampaignRows read = rows_of("a,,gpt2-124m,h100,x,1,2,1024,64,,,\n");
  REQUIRE(read.errors.size() == 2);
  CHECK_THAT(to_string(read.errors[0]), ContainsSubstring("campaigns.csv:2:3: 'source' is empty"));
  CHECK_THAT(to_string(read.errors[1]), ContainsSubstring("campaigns.csv:2:"));
  const CampaignRows unknown = rows_of("a,http://a,gpt5,h100,8,1,2,1024,64,1,1,1\n");
  REQUIRE(unknown.errors.empty());
  const AnchoredCampaign anchored = anchor_campaign(unknown.rows[0], "", tools(), 3);
  REQUIRE(anchored.fault);
  CHECK_THAT(*anchored.fault, ContainsSubstring("a: unknown model preset 'gpt5'"));
  CHECK_FALSE(anchored.error());
}

TEST_CASE("every published campaign names its source and can be planned", "[core][campaign]") {
  const std::string folder = LOCKSTEP_SOURCE_DIR "/validation";
  const Result<CsvTable> table = read_csv(folder + "/campaigns.csv");
  REQUIRE(table.ok());
  const CampaignRows read = read_campaign_rows(*table);
  REQUIRE(read.errors.empty());
  CHECK(read.rows.size() >= 10);
  for (const CampaignRow& row : read.rows) {
    INFO(row.id);
    CHECK(row.source.starts_with("https://"));
    const Result<Scenario> scenario = anchor_scenario(row, folder);
    if (!scenario) FAIL(to_string(scenario.error()));
  }
}

}  // namespace
}  // namespace lockstep
