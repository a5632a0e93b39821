#include "core/plan/found_layout.hpp"

#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

Scenario layout() {
  const LoadedScenario loaded = parse_scenario(
      "[model]\npreset = \"gpt2-tiny\"\n[cluster]\npreset = \"a100-80\"\n", "layout", {});
  if (!loaded.ok()) FAIL(loaded.errors.front().message);
  Scenario s = loaded.points.front().scenario;
  s.strategy.tensor_parallel_degree = 2;
  s.strategy.pipeline_parallel_degree = 2;
  s.strategy.pipeline_parallel_schedule = PipelineSchedule::Interleaved1F1B;
  s.strategy.pipeline_parallel_virtual_stages = 2;
  s.strategy.pipeline_parallel_microbatches = 4;
  s.strategy.data_parallel_shard_degree = 2;
  s.strategy.zero_stage = 1;
  s.training.local_batch_size = 8;
  s.training.global_batch_size = 16;
  return s;
}

}  // namespace

TEST_CASE("the name of a layout has its degrees, its microbatches and what it recomputes",
          "[core][plan]") {
  Scenario s = layout();
  CHECK(layout_name(s) == "tp 2 · pp 2 Interleaved1F1B v 2 · dp 2 ZeRO 1 · 4 × 2");
  s.activation_checkpoint = {ActivationCheckpoint::Full, "2", {}};
  CHECK(layout_name(s).ends_with(" · full recomputation"));
  s.strategy.zero_stage = 3;
  CHECK(layout_name(s).find("dp 2 FSDP") != std::string::npos);
  s.strategy = {};
  s.strategy.data_parallel_replicate_degree = 8;
  CHECK(layout_name(s).find("dp 8 DDP") == 0);
}

TEST_CASE("a found layout is written as a scenario that is read as itself", "[core][plan]") {
  Scenario s = layout();
  s.strategy.enable_sequence_parallel = true;
  const std::string text = layout_file(s);
  CHECK(text.starts_with("# Found by lockstep search: " + layout_name(s)));
  const LoadedScenario read = parse_scenario(text, "found", {});
  if (!read.ok()) FAIL(read.errors.front().message);
  CHECK(read.points.front().scenario.strategy == s.strategy);
  CHECK(search_task(s).find("16 sequences of") != std::string::npos);
}
