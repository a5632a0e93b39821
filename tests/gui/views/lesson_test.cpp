// Tests the pipeline lesson as somebody uses it who has never seen the application: opens it,
// presses Space, reads what is said, and moves the slider that is named.
#include <QElapsedTimer>
#include <QSlider>
#include <QTest>

#include "gui/views/main_window.hpp"
#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

/// The words of Play's picture, as screen readers get them.
std::string said(const MainWindow& window) {
  for (const QWidget* widget : window.view("play")->findChildren<QWidget*>()) {
    if (widget->accessibleName() == "The step at the cursor") {
      return widget->accessibleDescription().toStdString();
    }
  }
  return "";
}

TEST_CASE("the pipeline lesson says what it shows, plays on Space, and explains the bubble",
          "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.resize(1600, 900);
  test::show_active(window);
  window.open(QString::fromStdString(test::scenario_path("lessons/pipeline.toml")));
  test::wait_until_idle(session);
  CHECK_THAT(said(window),
             ContainsSubstring("Pipeline parallel") && ContainsSubstring("Space plays it"));

  // Space plays, wherever the keyboard focus is at first.
  REQUIRE(window.focusWidget() != nullptr);
  QTest::keyClick(window.focusWidget(), Qt::Key_Space);
  REQUIRE(session.playing());
  QElapsedTimer time;
  time.start();
  while (session.cursor() == session.run()->lanes.begin() && time.elapsed() < 10'000) {
    QCoreApplication::processEvents(QEventLoop::AllEvents, 20);
  }
  CHECK(session.cursor() > session.run()->lanes.begin());
  QTest::keyClick(window.focusWidget(), Qt::Key_Space);
  CHECK_FALSE(session.playing());

  const SimTime whole = session.run()->lanes.end() - session.run()->lanes.begin();
  session.set_cursor(session.run()->lanes.begin() + whole / 25);
  CHECK_THAT(said(window), ContainsSubstring("warm-up bubble"));
  session.set_cursor(session.run()->lanes.end());
  CHECK_THAT(said(window), ContainsSubstring("Ranks computed nothing for") &&
                               ContainsSubstring("Try the slider in What if"));

  // The slider is there and does what was said.
  QSlider* microbatches = nullptr;
  for (QSlider* slider : window.view("what-if")->findChildren<QSlider*>()) {
    if (slider->accessibleName() == "Microbatches") microbatches = slider;
  }
  REQUIRE(microbatches != nullptr);
  const double before = session.run()->report->bubble_fraction;
  microbatches->setValue(microbatches->value() + 1);
  test::wait_until_idle(session);
  CHECK(session.run()->report->bubble_fraction < before);
}

TEST_CASE("the panels leave most of the window to the timeline", "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.resize(1600, 900);
  window.show();
  window.open(QString::fromStdString(test::scenario_path("lessons/pipeline.toml")));
  test::wait_until_idle(session);
  CHECK(window.view("what-if")->width() < 420);
  CHECK(window.centralWidget()->width() > 1600 * 7 / 10);
}

}  // namespace
}  // namespace lockstep::gui
