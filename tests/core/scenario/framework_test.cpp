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
    for (const char* cluster : {"cpu", "h100"}) {
      INFO(preset.name << " on " << cluster);
      const Scenario s = sound("[framework]\npreset = \"" + std::string(preset.name) +
                               "\"\n[cluster]\npreset = \"" + cluster + "\"\n");
      CHECK(s.cluster.framework.preset == preset.name);
      const LoadedScenario again = parse_scenario(print_scenario(s), "one.toml", {});
      REQUIRE(again.ok());
      CHECK(again.points.front().scenario.cluster.framework == s.cluster.framework);
      CHECK(again.points.front().scenario.strategy == s.strategy);
    }
  }
}

TEST_CASE("a GPU cluster is simulated as people run such a layout", "[core][scenario]") {
  const std::string gpus = "[cluster]\npreset = \"h100\"\n";
  const auto preset = [&](const std::string& parallelism) {
    return sound(gpus + "[parallelism]\n" + parallelism).cluster.framework.preset;
  };
  CHECK(preset("data_parallel_shard_degree = 8\n") == "torchtitan");
  CHECK(preset("data_parallel_shard_degree = -1\n") == "torchtitan");
  CHECK(preset("data_parallel_shard_degree = 4\ntensor_parallel_degree = 2\n") == "torchtitan");
  CHECK(preset("data_parallel_shard_degree = 4\nzero_stage = 1\n") == "megatron-core");
  CHECK(preset("tensor_parallel_degree = 2\n") == "megatron-core");
  CHECK(preset("data_parallel_replicate_degree = 8\n") == "torch-compile");
  CHECK(preset("") == "megatron-core");  // not divided yet, and about to be
  // A preset that is assumed is the same as one that is named.
  const std::string divided = gpus + "[parallelism]\ntensor_parallel_degree = 2\n";
  CHECK(sound(divided) == sound(divided + "[framework]\npreset = \"megatron-core\"\n"));
  CHECK(sound(divided + "[framework]\nhost_kernel_us = 9\n").cluster.framework.preset ==
        "megatron-core");
}

TEST_CASE("Lockstep's own kernels are assumed where they run, and where no framework does",
          "[core][scenario]") {
  CHECK(sound("").cluster.framework == FrameworkSpec{});
  const std::string gpus = "[cluster]\npreset = \"h100\"\n";
  const auto own = parse_scenario("[model]\npreset = \"gpt2-tiny\"\n" + gpus, "one.toml", {},
                                  kOverrideFile, Software::Own);
  REQUIRE(own.ok());
  CHECK(own.points.front().scenario.cluster.framework == FrameworkSpec{});
  const auto named = parse_scenario("[model]\npreset = \"gpt2-tiny\"\n" + gpus, "one.toml",
                                    {"framework.preset=llm.c"}, kOverrideFile, Software::Own);
  REQUIRE(named.ok());
  CHECK(named.points.front().scenario.cluster.framework.preset == "llm.c");
  const auto costs = parse_scenario(
      "[model]\narchitecture = \"synthetic\"\n[costs]\nforward = 1\nbackward_input = "
      "1\nbackward_weight = 1\n" +
          gpus,
      "one.toml", {});
  for (const Error& error : costs.errors) FAIL_CHECK(to_string(error));
  REQUIRE(costs.ok());
  CHECK(costs.points.front().scenario.cluster.framework == FrameworkSpec{});
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
