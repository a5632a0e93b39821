#include "gui/views/summary_view.hpp"

#include <QLabel>
#include <QTableView>

#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

std::vector<QLabel*> cards(const SummaryView& view) {
  std::vector<QLabel*> found;
  for (QLabel* label : view.findChildren<QLabel*>()) {
    if (label->accessibleName().contains(": ")) found.push_back(label);
  }
  return found;
}

TEST_CASE("the summary shows nine numbers that a screen reader can tell", "[gui][views]") {
  test::application();
  Session session;
  SummaryView view(session);
  view.resize(460, 900);
  view.show();
  CHECK(cards(view).empty());
  session.open(test::scenario_path("schedules/1f1b-p4-m8.toml"));
  test::wait_until_idle(session);
  const auto shown = cards(view);
  REQUIRE(shown.size() == 9);
  CHECK(shown[0]->accessibleName().startsWith("Step time: 346 s"));
  for (const QLabel* card : shown) {
    CHECK(card->isVisible());
    CHECK(card->toolTip().isEmpty() != card->accessibleName().contains("not known"));
  }
  auto* table = view.findChild<QTableView*>();
  REQUIRE(table);
  CHECK(table->model()->rowCount() == 4);
}

TEST_CASE("the worst straggler stands first, and Enter goes to where others wait for it",
          "[gui][views]") {
  test::application();
  Session session;
  SummaryView view(session);
  session.open(test::scenario_path("tiny/gpt2-ddp2.toml"));
  test::wait_until_idle(session);
  session.set_override("what_if.straggler_rank", "1");
  session.set_override("what_if.straggler_slowdown", "1.5");
  test::wait_until_idle(session);
  auto* table = view.findChild<QTableView*>();
  CHECK(table->model()->index(0, 0).data().toString() == "1");
  emit table->activated(table->model()->index(0, 0));
  REQUIRE(session.selection().span);
  CHECK(session.run()->trace.spans[*session.selection().span].rank == 1);
  emit table->activated(table->model()->index(1, 0));
  CHECK_FALSE(session.selection().span);
  CHECK(session.selection().ranks == std::vector<Rank>{0});
}

}  // namespace
}  // namespace lockstep::gui
