#include <QAccessible>
#include <QTest>
#include <set>

#include "gui/views/main_window.hpp"
#include "gui/views/style.hpp"
#include "gui/views/view_list.hpp"
#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

/// What a screen reader would say of a widget; may be empty.
QString spoken(QWidget& widget) {
  QAccessibleInterface* interface = QAccessible::queryAccessibleInterface(&widget);
  return interface ? interface->text(QAccessible::Name) : QString();
}

/// Parts of a control (the line of a spin box, the bars of a table) are named by the control.
bool is_part(const QWidget& widget) {
  const QString type = widget.metaObject()->className();
  const QString name = widget.objectName();
  return name.startsWith("qt_") || type.startsWith("QScroll") || type == "QHeaderView" ||
         type == "QTableCornerButton" || type == "QAbstractButton" || type == "QTabBar" ||
         (widget.parentWidget() && (widget.parentWidget()->inherits("QAbstractSpinBox") ||
                                    widget.parentWidget()->inherits("QComboBox") ||
                                    widget.parentWidget()->inherits("QLineEdit") ||
                                    widget.parentWidget()->inherits("QDockWidget")));
}

TEST_CASE("everything that takes the keyboard has a name for screen readers", "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.show();
  window.open(QString::fromStdString(test::scenario_path("schedules/1f1b-p4-m8.toml")));
  test::wait_until_idle(session);
  int named = 0;
  for (const ViewEntry& entry : view_list()) {
    QWidget* view = window.view(entry.name);
    for (QWidget* widget : view->findChildren<QWidget*>()) {
      if (widget->focusPolicy() == Qt::NoFocus || is_part(*widget)) continue;
      INFO(entry.name << ": a " << widget->metaObject()->className() << " \""
                      << widget->objectName().toStdString() << "\"");
      CHECK_FALSE(spoken(*widget).isEmpty());
      ++named;
    }
  }
  CHECK(named > 20);
}

TEST_CASE("Tab goes round the whole window, and one sees where it is", "[gui][views]") {
  QApplication& application = test::application();
  application.setStyle(new Style);
  Session session;
  MainWindow window(session);
  window.set_theme(false);
  window.resize(1366, 768);
  window.open(QString::fromStdString(test::scenario_path("lessons/pipeline.toml")));
  test::show_active(window);
  test::wait_until_idle(session);
  window.show_view("what-if");  // in front on the right; below is Play
  QCoreApplication::processEvents();
  std::set<QWidget*> met;
  QWidget* first = nullptr;
  for (int i = 0; i < 400; ++i) {
    QTest::keyClick(QApplication::focusWidget() ? QApplication::focusWidget() : &window,
                    Qt::Key_Tab);
    QWidget* at = QApplication::focusWidget();
    REQUIRE(at != nullptr);
    if (at == first) break;
    if (!first) first = at;
    INFO(at->metaObject()->className() << " \"" << spoken(*at).toStdString() << "\"");
    CHECK(met.insert(at).second);
    CHECK(at->isVisible());
    const QImage with = window.grab().toImage();
    at->clearFocus();
    const QImage without = window.grab().toImage();
    at->setFocus(Qt::TabFocusReason);
    CHECK(with != without);
  }
  for (QWidget* widget : window.findChildren<QWidget*>()) {
    const bool reachable = widget->isVisible() && widget->isEnabled() &&
                           !widget->visibleRegion().isEmpty() &&
                           (widget->focusPolicy() & Qt::TabFocus) != 0;
    if (!reachable || is_part(*widget) || widget->focusProxy()) continue;
    INFO(widget->metaObject()->className() << " \"" << spoken(*widget).toStdString() << "\"");
    CHECK(met.contains(widget));
  }
  application.setStyle("fusion");
}

TEST_CASE("the table twin tells a screen reader what the timeline shows", "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.show();
  window.open(QString::fromStdString(test::scenario_path("schedules/1f1b-p4-m8.toml")));
  window.show_view("table");
  test::wait_until_idle(session);
  QAccessibleInterface* table = nullptr;
  for (QWidget* widget : window.view("table")->findChildren<QWidget*>()) {
    if (widget->accessibleName() != "Table of spans") continue;
    table = QAccessible::queryAccessibleInterface(widget);
  }
  REQUIRE(table != nullptr);
  CHECK(table->role() == QAccessible::Table);
  REQUIRE(table->tableInterface() != nullptr);
  CHECK(table->tableInterface()->rowCount() == 160);
  QAccessibleInterface* cell = table->tableInterface()->cellAt(0, 2);
  REQUIRE(cell != nullptr);
  CHECK(cell->text(QAccessible::Name) == "first.F");
}

}  // namespace
}  // namespace lockstep::gui
