#include "gui/model/run_view.hpp"

#include <fstream>
#include <sstream>

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("a simulation after another is the same as one by itself", "[gui][model]") {
  const std::string file =
      std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/tiny/gpt2-fsdp2-1f1b2.toml";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const Cancelled never{false};
  const RunPtr before = simulate(text.str(), file, {}, never).run;
  REQUIRE(before);
  using Overrides = std::vector<std::string>;
  for (const Overrides& overrides :
       {Overrides{"what_if.bandwidth_factor=0.25"},
        Overrides{"what_if.straggler_rank=1", "what_if.straggler_slowdown=3.0"},
        Overrides{"parallelism.pipeline_parallel_microbatches=4"},
        Overrides{"cluster.device.memory_gb=2"}, Overrides{"parallelism.zero_stage=1"}}) {
    INFO(overrides.front());
    const RunPtr alone = simulate(text.str(), file, overrides, never).run;
    const RunPtr after = simulate(text.str(), file, overrides, never, before.get()).run;
    REQUIRE(alone);
    REQUIRE(after);
    CHECK(after->trace == alone->trace);
    CHECK(*after->program == *alone->program);
    CHECK(*after->scenario == *alone->scenario);
    CHECK(after->report->step_time == alone->report->step_time);
    CHECK(after->report->causes == alone->report->causes);
    CHECK(after->steps.size() == alone->steps.size());
  }
}

}  // namespace
}  // namespace lockstep::gui
