// Application: the QApplication of a test executable, on Qt's platform that needs no display.
#pragma once

#include <QApplication>
#include <QTest>
#include <QWidget>
#include <cstdlib>

#include "gui/model/session.hpp"
#include "tests/catch.hpp"

namespace lockstep::gui::test {

inline QApplication& application() {
  static int argc = 1;
  static char name[] = "test";
  static char* argv[] = {name, nullptr};
  static const bool set = [] {
    qputenv("QT_QPA_PLATFORM", "offscreen");
    qputenv("QT_SCALE_FACTOR", "1");
    QApplication::setStyle("fusion");
    return true;
  }();
  // It is never destroyed, because Qt's own static objects are destroyed before it at exit.
  static QApplication& app = *new QApplication(argc, argv);
  (void)set;
  return app;
}

/// Shows a window in front of all others, where it gets what is typed.
inline void show_active(QWidget& window) {
  window.show();
  window.activateWindow();
  REQUIRE(QTest::qWaitForWindowActive(&window));
}

/// The widget of a kind, inside `window`, that screen readers call `name`.
template <class Widget>
Widget& named(const QWidget& window, const QString& name) {
  for (Widget* widget : window.findChildren<Widget*>()) {
    if (widget->accessibleName() == name) return *widget;
  }
  FAIL("nothing is called " + name.toStdString());
  std::abort();
}

/// Runs the event loop until all background work is done.
inline void wait_until_idle(const Session& session) {
  while (session.busy() || Latest::any_busy()) {
    QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
  }
  QCoreApplication::processEvents();
}

inline std::string scenario_path(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/" + name;
}

}  // namespace lockstep::gui::test
