#include "core/scenario/edit_text.hpp"

#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

constexpr const char* kText = R"(# What it is about.
[model]
preset = "gpt2-tiny"   # four blocks

[training]
seq_len = 64
local_batch_size = 8

[parallelism]
pipeline_parallel_degree = 2  # stages
# microbatches are left as they are

[cluster]
ranks_per_device = 16
)";

std::string written(const std::string& text, const std::vector<std::string>& overrides) {
  const Result<std::string> result = with_overrides(text, "s.toml", overrides);
  INFO((result ? std::string() : to_string(result.error())));
  REQUIRE(result.ok());
  return *result;
}

TEST_CASE("an override replaces the value of its key and nothing else", "[scenario]") {
  std::string expected = kText;
  expected.replace(expected.find("seq_len = 64"), 12, "seq_len = 32");
  CHECK(written(kText, {"training.seq_len=32"}) == expected);
  CHECK(written(kText, {}) == kText);
}

TEST_CASE("a key that is not there becomes a line of its section", "[scenario]") {
  std::string expected = kText;
  const std::string before = "pipeline_parallel_degree = 2  # stages\n";
  expected.insert(expected.find(before) + before.size(), "pipeline_parallel_microbatches = 4\n");
  CHECK(written(kText, {"parallelism.pipeline_parallel_microbatches=4"}) == expected);
  CHECK(written(kText, {"what_if.straggler_rank=1"}) ==
        std::string(kText) + "\n[what_if]\nstraggler_rank = 1\n");
}

TEST_CASE("bare words get quotes, and strings that look like numbers stay strings", "[scenario]") {
  const std::string text = written(kText, {"activation_checkpoint.mode=selective",
                                           "activation_checkpoint.selective_ac_option=2"});
  CHECK_THAT(text, ContainsSubstring("mode = \"selective\"\nselective_ac_option = \"2\"\n"));
}

TEST_CASE("a preset takes the place of a profile, which a section has only one of", "[scenario]") {
  const std::string text = written(kText, {"cluster.preset=h100", "model.preset=gpt2-124m"});
  CHECK_THAT(text, ContainsSubstring("preset = \"gpt2-124m\"   # four blocks\n"));
  CHECK_THAT(text, ContainsSubstring("ranks_per_device = 16\npreset = \"h100\"\n"));
}

TEST_CASE("what was written means what text and overrides meant", "[scenario]") {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"parallelism.pipeline_parallel_degree=4", "training.local_batch_size=16"},
           {"cluster.device.memory_gb=32", "what_if.bandwidth_factor=0.5"},
           {"parallelism.pipeline_parallel_schedule=GPipe",
            "parallelism.pipeline_parallel_microbatches=8", "training.dtype=float64"}}) {
    const std::string text = written(kText, overrides);
    const LoadedScenario meant = parse_scenario(kText, "s.toml", overrides);
    const LoadedScenario is = parse_scenario(text, "s.toml", {});
    REQUIRE(is.ok());
    CHECK(is.points.front().scenario == meant.points.front().scenario);
  }
}

TEST_CASE("what cannot be written into the text is an error that names it", "[scenario]") {
  const std::string sweep =
      std::string(kText) + "\n[sweep]\nparallelism.pipeline_parallel_microbatches = [2, 4]\n";
  const auto swept =
      with_overrides(sweep, "s.toml", {"parallelism.pipeline_parallel_microbatches=8"});
  REQUIRE_FALSE(swept.ok());
  CHECK_THAT(to_string(swept.error()), ContainsSubstring("pipeline_parallel_microbatches=8"));
  CHECK_FALSE(with_overrides(kText, "s.toml", {"training.seq_len=none"}).ok());
}

TEST_CASE("overrides are found for a scenario, also where other values follow from them",
          "[scenario]") {
  const std::string text =
      "[model]\npreset = \"gpt2-tiny\"\n[training]\nglobal_batch_size = 16\n"
      "[cluster]\npreset = \"a100-80\"\ndevices_per_node = 4\n"
      "[parallelism]\ndata_parallel_replicate_degree = 4\n";
  const std::vector<std::string> wanted = {
      "parallelism.data_parallel_replicate_degree=2", "parallelism.pipeline_parallel_degree=2",
      "parallelism.pipeline_parallel_schedule=1F1B", "parallelism.pipeline_parallel_microbatches=4",
      "activation_checkpoint.mode=full"};
  const LoadedScenario meant = parse_scenario(text, "s.toml", wanted);
  REQUIRE(meant.ok());
  const auto found = overrides_for(text, "s.toml", meant.points.front().scenario);
  REQUIRE(found);
  CHECK(found->size() <= wanted.size() + 2);
  const LoadedScenario got = parse_scenario(text, "s.toml", *found);
  REQUIRE(got.ok());
  CHECK(differences(got.points.front().scenario, meant.points.front().scenario).empty());
  CHECK(overrides_for(text, "s.toml", parse_scenario(text, "s.toml", {}).points.front().scenario)
            ->empty());
}

TEST_CASE("a layout that is usual for another software keeps that of the text", "[scenario]") {
  const std::string text =
      "[model]\npreset = \"llama2-7b\"\n[cluster]\npreset = \"h100\"\n"
      "[parallelism]\ndata_parallel_shard_degree = 8\n";
  Scenario wanted = parse_scenario(text, "s.toml", {}).points.front().scenario;
  REQUIRE(wanted.cluster.framework.preset == "torchtitan");
  wanted.strategy.data_parallel_shard_degree = 1;
  wanted.strategy.tensor_parallel_degree = 8;
  const auto found = overrides_for(text, "s.toml", wanted);
  REQUIRE(found);
  CHECK(*found == std::vector<std::string>{"parallelism.data_parallel_shard_degree=1",
                                           "parallelism.tensor_parallel_degree=8",
                                           "framework.preset=\"torchtitan\""});
}

TEST_CASE("no overrides are found for a text that stands for several scenarios", "[scenario]") {
  const std::string text =
      "[model]\npreset = \"gpt2-tiny\"\n[sweep]\ntraining.seq_len = [32, 64]\n";
  const LoadedScenario loaded = parse_scenario(text, "s.toml", {});
  REQUIRE(loaded.points.size() == 2);
  CHECK_FALSE(overrides_for(text, "s.toml", loaded.points.back().scenario));
}

}  // namespace
}  // namespace lockstep
