#include <algorithm>

#include "core/scenario/presets.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

LoadedScenario load(const std::string& sections) {
  return parse_scenario("[model]\npreset = \"gpt2-tiny\"\n" + sections, "one.toml", {});
}
Scenario sound(const std::string& sections) {
  const LoadedScenario loaded = load(sections);
  for (const Error& error : loaded.errors) FAIL_CHECK(to_string(error));
  REQUIRE(loaded.ok());
  return loaded.points.front().scenario;
}

}  // namespace

TEST_CASE("every framework preset is read, printed and read again", "[core][scenario]") {
  CHECK(embedded_frameworks().size() >= 12);
  for (const EmbeddedProfile& preset : embedded_frameworks()) {
    INFO(preset.name);
    const Scenario s = sound("[framework]\npreset = \"" + std::string(preset.name) + "\"\n");
    CHECK(s.cluster.framework.preset == preset.name);
    const LoadedScenario again = parse_scenario(print_scenario(s), "one.toml", {});
    REQUIRE(again.ok());
    CHECK(again.points.front().scenario.cluster.framework == s.cluster.framework);
    CHECK(again.points.front().scenario.strategy == s.strategy);
  }
}

TEST_CASE("the project's own preset is what a scenario without one has", "[core][scenario]") {
  CHECK(sound("").cluster.framework == FrameworkSpec{});
  CHECK(sound("[framework]\npreset = \"lockstep\"\n").cluster.framework == FrameworkSpec{});
}

TEST_CASE("a key beside the preset wins, and so do keys of other sections", "[core][scenario]") {
  const Scenario s = sound(
      "[framework]\npreset = \"megatron-2021\"\nattention = \"flash1\"\n"
      "[parallelism]\noverlap_grad_reduce = true\n");
  CHECK(s.cluster.framework.attention == AttentionKernel::Flash1);
  CHECK(!s.cluster.framework.fused_gradient_accumulation);
  CHECK(s.strategy.overlap_grad_reduce);
  CHECK(s.strategy.pipeline_parallel_p2p == P2pPosting::Fused);
  CHECK(sound("[framework]\npreset = \"deepspeed-2021\"\n").strategy.pipeline_parallel_p2p ==
        P2pPosting::Fused);
  CHECK(sound("[framework]\npreset = \"megatron-2024\"\n").strategy.pipeline_parallel_p2p ==
        P2pPosting::Async);
  CHECK(!sound("[framework]\npreset = \"megatron-2021\"\n").strategy.overlap_grad_reduce);
  CHECK(sound("[framework]\npreset = \"deepspeed-2021\"\n"
              "[parallelism]\npipeline_parallel_p2p = \"async\"\n")
            .strategy.pipeline_parallel_p2p == P2pPosting::Async);
}

TEST_CASE("DeepSpeed of 2021 gathers nothing ahead, unless a scenario says so",
          "[core][scenario]") {
  CHECK(sound("[framework]\npreset = \"deepspeed-2021\"\n").strategy.fsdp_prefetch == 0);
  CHECK(sound("[framework]\npreset = \"deepspeed-2021\"\n[parallelism]\nfsdp_prefetch = 2\n")
            .strategy.fsdp_prefetch == 2);
  CHECK(sound("[framework]\npreset = \"fsdp-eager\"\n").strategy.fsdp_prefetch == 1);
}

TEST_CASE("an unknown framework and a negative time are told with the line", "[core][scenario]") {
  const auto message = [](const std::string& text) {
    const LoadedScenario loaded = load(text);
    REQUIRE(!loaded.ok());
    return to_string(loaded.errors.front());
  };
  CHECK_THAT(message("[framework]\npreset = \"megatron-2012\"\n"),
             ContainsSubstring("one.toml:4") && ContainsSubstring("megatron-2021"));
  CHECK_THAT(message("[framework]\nstep_us = -1\n"),
             ContainsSubstring("one.toml:4") && ContainsSubstring("negative"));
}
