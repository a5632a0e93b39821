#include "gui/model/run/open_runs.hpp"

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("a new simulation takes the place of the one before, else the last", "[gui][run]") {
  OpenRuns runs;
  const auto run = [] { return make_run("a run", Trace{}); };
  const RunPtr loaded = run(), first = run(), second = run();
  runs.replace(nullptr, first);
  runs.add(loaded);
  CHECK(runs.all() == std::vector<RunPtr>{first, loaded});
  runs.replace(first, second);
  CHECK(runs.all() == std::vector<RunPtr>{second, loaded});
  runs.store(Slot::A, second);
  CHECK(runs.close(second) == loaded);
  CHECK(runs.slot(Slot::A) == second);
  CHECK(runs.slot(Slot::B) == nullptr);
  CHECK(runs.close(loaded) == nullptr);
}

}  // namespace
}  // namespace lockstep::gui
