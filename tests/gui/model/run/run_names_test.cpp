#include "gui/model/run/run_names.hpp"

#include "tests/catch.hpp"
#include "tests/gui/simulated.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

RunPtr simulated(const std::vector<std::string>& overrides) {
  return test::simulated("lessons/pipeline.toml", overrides);
}

RunPtr loaded(const std::string& path) {
  auto run = std::make_shared<RunView>();
  run->title = "trace";
  run->path = path;
  return run;
}

TEST_CASE("runs of one scenario are named by the keys in which they differ", "[gui][model]") {
  const RunPtr a = simulated({"parallelism.pipeline_parallel_schedule=GPipe"});
  const RunPtr b = simulated({"parallelism.pipeline_parallel_schedule=1F1B"});
  const std::string title = "pipeline, simulated with Lockstep's own kernels";
  const std::vector<std::string> names = distinct_names({a, b});
  CHECK(names[0] == title + ": pipeline_parallel_schedule GPipe");
  CHECK(names[1] == title + ": pipeline_parallel_schedule 1F1B");
  CHECK(distinct_names({a}) == std::vector<std::string>{title});
}

TEST_CASE("traces of one name are told apart by their folders, or by numbers", "[gui][model]") {
  using Names = std::vector<std::string>;
  CHECK(distinct_names({loaded("/x/monday/trace.json"), loaded("/x/tuesday/trace.json")}) ==
        Names{"trace: in monday", "trace: in tuesday"});
  CHECK(distinct_names({loaded("/x/trace.json"), loaded("/x/trace.json")}) ==
        Names{"trace: no. 1", "trace: no. 2"});
}

}  // namespace
}  // namespace lockstep::gui
