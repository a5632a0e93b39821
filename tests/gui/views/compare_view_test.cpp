#include "gui/views/compare_view.hpp"

#include <QComboBox>
#include <QTabBar>
#include <QTableView>

#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("a run kept as A is compared with what the sliders made of it", "[gui][views]") {
  test::application();
  Session session;
  CompareView view(session);
  session.open(test::scenario_path("tiny/gpt2-ddp2.toml"));
  test::wait_until_idle(session);
  CHECK(view.model() == nullptr);  // one run has nothing to be compared with
  const RunPtr before = session.run();
  session.store(Slot::A, before);
  session.set_override("what_if.straggler_rank", "1");
  session.set_override("what_if.straggler_slowdown", "2.0");
  test::wait_until_idle(session);
  REQUIRE(view.model());
  CHECK(view.model()->a == before);
  CHECK(view.model()->b == session.run());
  CHECK(view.findChildren<QComboBox*>()[0]->currentText().endsWith(
      "straggler_rank -1, straggler_slowdown 1 (kept)"));
  for (const QComboBox* choice : view.findChildren<QComboBox*>()) {
    CHECK_FALSE(choice->accessibleName().isEmpty());
  }

  auto* tabs = view.findChild<QTabBar*>();
  tabs->setCurrentIndex(1);  // kinds
  // A click goes to the first such span of the run that is on screen.
  auto* table = view.findChild<QTableView*>();
  REQUIRE(table->model()->rowCount() > 0);
  int row = 0;
  while (table->model()->index(row, 0).data().toString() != "backward") {
    REQUIRE(++row < table->model()->rowCount());
  }
  emit table->clicked(table->model()->index(row, 0));
  REQUIRE(session.selection().span);
  const RunPtr run = session.run();
  const Span& span = run->trace.spans[*session.selection().span];
  CHECK(run->trace.names[run->lanes.op(span).kind] == "backward");

  for (int tab = 0; tab < tabs->count(); ++tab) {
    tabs->setCurrentIndex(tab);
    INFO(tabs->tabText(tab).toStdString());
    CHECK(table->model()->rowCount() > 0);
    emit table->activated(table->model()->index(0, 0));
  }
  CHECK(tabs->count() == 7);
}

TEST_CASE("a trace is compared in one step with the simulation of what was traced",
          "[gui][views]") {
  test::application();
  Session session;
  CompareView view(session);
  session.open(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/kineto");
  test::wait_until_idle(session);
  const RunPtr trace = session.run();
  REQUIRE(trace);
  REQUIRE(trace->from_elsewhere());
  view.simulate_beside(test::scenario_path("tiny/gpt2-ddp2.toml"));
  test::wait_until_idle(session);
  REQUIRE(view.model());
  CHECK(view.model()->a->simulated());
  CHECK(view.model()->b == trace);
  CHECK(view.model()->conclusion.starts_with("B is "));
}

}  // namespace
}  // namespace lockstep::gui
