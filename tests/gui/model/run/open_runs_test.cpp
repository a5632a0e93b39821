#include "gui/model/run/open_runs.hpp"

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("a new simulation takes the place of the one before, else the first", "[gui][run]") {
  OpenRuns runs;
  const auto run = [] { return make_run("a run", Trace{}); };
  const RunPtr loaded = run(), first = run(), second = run();
  runs.add(loaded);
  runs.set_simulation(first);
  CHECK(runs.all() == std::vector<RunPtr>{first, loaded});
  runs.set_simulation(second);
  CHECK(runs.all() == std::vector<RunPtr>{second, loaded});
  CHECK(runs.simulation() == second);
  runs.store(Slot::A, second);
  CHECK(runs.close(second) == loaded);
  CHECK(runs.simulation() == nullptr);
  CHECK(runs.slot(Slot::A) == second);
  CHECK(runs.slot(Slot::B) == nullptr);
  CHECK(runs.close(loaded) == nullptr);
}

}  // namespace
}  // namespace lockstep::gui
