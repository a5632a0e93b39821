#include <map>
#include <string>
#include <vector>

#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"
#include "tests/core/schedule/unshard_counts.hpp"

using namespace lockstep;
using test::Counts;
using test::counts;

TEST_CASE("a rank gathers its blocks as often as its stages are unsharded", "[core][lower]") {
  for (const int most_active : {0, 1, 2, 3}) {
    INFO(most_active << " active");
    Scenario s = test::tiny_scenario(Architecture::Llama, {1, 2, 2, 4});
    s.model.layers = 8;  // one block per stage
    s.training.max_norm = 0;
    s.strategy.pipeline_parallel_schedule = PipelineSchedule::Interleaved1F1B;
    s.strategy.pipeline_parallel_virtual_stages = 4;
    s.strategy.pipeline_parallel_layers_per_stage = std::vector<int>(8, 1);
    s.strategy.fsdp_max_active_stages = most_active;
    REQUIRE(validate(s).empty());
    const auto program = lower(s);
    if (!program) FAIL(to_string(program.error()));
    const Counts expected = counts(interleaved_1f1b, {2, 4, 4, 2}, most_active);
    for (std::size_t r = 0; r < 2; ++r) {
      const Role& role = program->roles[r];
      int gathers = 0;
      for (const Op& op : role.ops) {
        if (op.kind != OpKind::AllGather) continue;
        const Buffer& full = role.buffer(role.args_of(op)[1]);
        const std::string& name = program->names[full.name];
        gathers += name.rfind("blocks.", 0) == 0;
      }
      CHECK(gathers == expected[r]);
    }
  }
}
