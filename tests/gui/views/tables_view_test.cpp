#include "gui/views/tables_view.hpp"

#include <QLineEdit>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <set>

#include "core/format/format.hpp"
#include "gui/model/timeline/timeline_tables.hpp"
#include "gui/views/details_view.hpp"
#include "gui/views/timeline_panel.hpp"
#include "gui/views/timeline_view.hpp"
#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

struct Fixture {
  Fixture() : app(test::application()), panel(session), tables(session), details(session) {
    panel.resize(1000, 400);
    panel.show();
    tables.resize(1000, 300);
    tables.show();
    session.open(test::scenario_path("schedules/1f1b-p4-m8.toml"));
    test::wait_until_idle(session);
  }
  QTableView* spans() const {
    return dynamic_cast<QTableView*>(tables.findChild<QTabWidget*>()->widget(0));
  }
  QApplication& app;
  Session session;
  TimelinePanel panel;
  TablesView tables;
  DetailsView details;
};

TEST_CASE("every page of the table has a name and can be reached by the keyboard", "[gui][views]") {
  Fixture f;
  const auto views = f.tables.findChildren<QTableView*>();
  REQUIRE(views.size() == 6);
  for (const QTableView* view : views) {
    CHECK_FALSE(view->accessibleName().isEmpty());
    CHECK(view->focusPolicy() != Qt::NoFocus);
  }
  CHECK(f.spans()->model()->rowCount() == 160);
}

TEST_CASE("Enter on a row shows the span in the timeline and its details", "[gui][views]") {
  Fixture f;
  auto* view = f.spans();
  view->setCurrentIndex(view->model()->index(5, 0));
  emit view->activated(view->currentIndex());
  REQUIRE(f.session.selection().span == SpanId{5});
  CHECK(view->model()->rowCount() == 160);  // the table did not change under the row
  CHECK(f.details.topLevelItemCount() > 6);
  CHECK(f.details.topLevelItem(0)->text(1) == "first.F");
}

TEST_CASE("the filter above the timeline restricts its rows", "[gui][views]") {
  Fixture f;
  const auto edits = f.panel.findChildren<QLineEdit*>();
  REQUIRE(edits.size() == 2);
  QTest::keyClicks(edits[0], "rank 2");
  CHECK(f.panel.timeline().layout_now().rows.size() == 5);
  edits[0]->clear();
  CHECK(f.panel.timeline().layout_now().rows.size() > 10);
}

TEST_CASE("Enter in the search goes from match to match and around", "[gui][views]") {
  Fixture f;
  auto* search = f.panel.findChildren<QLineEdit*>()[1];
  QTest::keyClicks(search, "B7 compute");
  std::vector<SpanId> found;
  for (int i = 0; i < 5; ++i) {
    QTest::keyClick(search, Qt::Key_Return);
    found.push_back(*f.session.selection().span);
  }
  CHECK(found[4] == found[0]);
  CHECK(std::set<SpanId>(found.begin(), found.end()).size() == 4);
  QTest::keyClick(search, Qt::Key_Return, Qt::ShiftModifier);
  CHECK(f.session.selection().span == found[3]);
}

TEST_CASE("a kernel that is selected shows the arguments that its file has", "[gui][views]") {
  test::application();
  Session session;
  DetailsView details(session);
  session.open(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/kineto");
  test::wait_until_idle(session);
  const RunPtr run = session.run();
  REQUIRE(run);
  for (SpanId i = 0; i < run->trace.spans.size(); ++i) {
    if (run->trace.names[run->lanes.op(run->trace.spans[i]).kind] != "all_reduce") continue;
    session.select({i, std::nullopt, {}});
    test::wait_until_idle(session);
    const auto found = details.findItems("Collective name", Qt::MatchRecursive, 0);
    REQUIRE(found.size() == 1);
    CHECK(found[0]->text(1) == "allreduce");
    return;
  }
  FAIL("no all-reduce");
}

TEST_CASE("kernels by name lead to the longest of them", "[gui][views]") {
  test::application();
  const Cancelled never{false};
  const RunPtr run = load(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/kineto-fsdp8", never).run;
  REQUIRE(run);
  const TimelineTable table = name_table(run, {});
  REQUIRE(table.content.rows > 5);
  double share = 0;
  for (std::size_t row = 0; row < table.content.rows; ++row) {
    const Selection target = table.target(row);
    REQUIRE(target.span);
    const Span& span = run->trace.spans[*target.span];
    CHECK(run->trace.names[run->lanes.op(span).name] == table.content.columns[0].text(row));
    CHECK(table.content.columns[11].text(row) == time_text(to_seconds(span.end - span.active)));
    share += table.content.columns[5].key(row);
  }
  CHECK(share == Approx(2).epsilon(0.01));  // devices and hosts, each the whole of its time
}

}  // namespace
}  // namespace lockstep::gui
