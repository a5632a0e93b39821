#include "gui/views/play_view.hpp"

#include <QComboBox>
#include <QElapsedTimer>
#include <QSlider>
#include <QTest>
#include <algorithm>
#include <vector>

#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

using test::scenario_path;
using test::wait_until_idle;

TEST_CASE("Space plays and pauses, and the cursor moves with the clock", "[gui][views]") {
  test::application();
  Session session;
  PlayView view(session);
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  view.show();
  view.activateWindow();
  REQUIRE(QTest::qWaitForWindowActive(&view));
  const SimTime begin = session.cursor();
  QTest::keyClick(&view, Qt::Key_Space);
  CHECK(session.playing());
  QElapsedTimer time;
  time.start();
  while (session.cursor() == begin && time.elapsed() < 10'000) {
    QCoreApplication::processEvents(QEventLoop::AllEvents, 20);
  }
  CHECK(session.cursor() > begin);
  QTest::keyClick(&view, Qt::Key_Space);
  CHECK_FALSE(session.playing());
}

TEST_CASE("stepping goes through the moments at which computations begin and end", "[gui][views]") {
  test::application();
  Session session;
  PlayView view(session);
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  const auto moment = [&] { return to_seconds(session.cursor()).v; };
  CHECK(moment() == 0);
  std::vector<double> forward;
  for (int i = 0; i < 5; ++i) {
    view.step(+1);
    forward.push_back(moment());
  }
  CHECK(std::is_sorted(forward.begin(), forward.end()));
  CHECK(std::adjacent_find(forward.begin(), forward.end()) == forward.end());
  for (int i = 3; i >= 0; --i) {
    view.step(-1);
    CHECK(moment() == forward[i]);
  }
}

TEST_CASE("the slider and the speed are the session's", "[gui][views]") {
  test::application();
  Session session;
  PlayView view(session);
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  auto* scrub = view.findChild<QSlider*>();
  scrub->setValue(5000);
  CHECK(to_seconds(session.cursor()).v ==
        Approx(to_seconds(session.run()->lanes.end()).v / 2).epsilon(1e-3));
  session.set_play_seconds(5);
  CHECK(view.findChild<QComboBox*>()->currentText() == "in 5 s");
}

}  // namespace
}  // namespace lockstep::gui
