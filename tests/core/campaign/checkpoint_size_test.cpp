#include "core/campaign/checkpoint_size.hpp"

#include "core/lower/lower.hpp"
#include "core/run/state_transfer.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

Program program_of(const std::string& text) {
  const LoadedScenario loaded = parse_scenario("[model]\npreset = \"gpt2-tiny\"\n" + text, "t", {});
  if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
  Result<Program> program = lower(loaded.points.front().scenario);
  if (!program) FAIL(to_string(program.error()));
  return std::move(*program);
}

TEST_CASE("a checkpoint has the bytes of all tensors that a run saves", "[core][campaign]") {
  const char* const cluster = "[cluster]\npreset = \"h100\"\n";
  const std::string sharded = "[parallelism]\ndata_parallel_shard_degree = 4\n";
  const std::string pipeline = R"([training]
local_batch_size = 2
[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_microbatches = 2
data_parallel_shard_degree = 2
)";
  const std::string divided = R"([parallelism]
tensor_parallel_degree = 2
data_parallel_replicate_degree = 2
)";
  for (const std::string& layout :
       {std::string(), sharded, sharded + "zero_stage = 1\n", divided, pipeline}) {
    INFO(layout);
    const Program program = program_of(layout + cluster);
    std::int64_t bytes = 0;
    for (const auto& [name, tensor] : state_head(program, 0, 0).tensors) bytes += tensor.bytes();
    const CheckpointSize size = checkpoint_size(program);
    CHECK(size.whole.v == bytes);
    CHECK(size.fullest_rank.v <= bytes);
    CHECK(size.fullest_rank.v * program.mesh.world_size() >= bytes);
  }
}

TEST_CASE("the parts that ranks save are of one size where all is sharded", "[core][campaign]") {
  const Program program = program_of(
      "[parallelism]\ndata_parallel_shard_degree = 4\n[cluster]\n"
      "preset = \"h100\"\n");
  const CheckpointSize size = checkpoint_size(program);
  CHECK(double(size.fullest_rank.v) == Approx(size.whole.v / 4.0).epsilon(0.02));
}

}  // namespace
}  // namespace lockstep
