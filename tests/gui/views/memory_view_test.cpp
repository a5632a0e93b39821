#include "gui/views/memory_view.hpp"

#include <QComboBox>
#include <QLabel>

#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

using test::scenario_path;
using test::wait_until_idle;

TEST_CASE("the memory view shows the rank that is selected, and says what is freed next",
          "[gui][views]") {
  test::application();
  Session session;
  MemoryView view(session);
  session.open(scenario_path("tiny/gpt2-fsdp2-1f1b2.toml"));
  wait_until_idle(session);
  CHECK(view.rank() == 0);
  REQUIRE_FALSE(view.model().empty());
  session.select({{}, {}, {3}});
  wait_until_idle(session);
  CHECK(view.rank() == 3);
  CHECK(view.model().rank == 3);
  session.set_cursor(session.run()->lanes.begin() +
                     (session.run()->lanes.end() - session.run()->lanes.begin()) / 2);
  CHECK(view.findChild<QLabel*>()->text().contains("freed next: "));
}

TEST_CASE("the memory view shows blocks by address where blocks are known", "[gui][views]") {
  test::application();
  Session session;
  MemoryView view(session);
  view.resize(800, 400);
  view.show();
  session.open(scenario_path("tiny/gpt2-fsdp2-1f1b2.toml"));
  wait_until_idle(session);
  QComboBox& shown = test::named<QComboBox>(view, "What the picture shows");
  CHECK(shown.isEnabled());
  CHECK_FALSE(view.shows_blocks());
  const QImage before = view.grab().toImage();
  shown.setCurrentIndex(1);
  CHECK(view.shows_blocks());
  CHECK(view.grab().toImage() != before);
}

}  // namespace
}  // namespace lockstep::gui
