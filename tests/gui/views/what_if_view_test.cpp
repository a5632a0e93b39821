#include "gui/views/what_if_view.hpp"

#include <QApplication>
#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSlider>
#include <QTabWidget>
#include <QTest>
#include <QWheelEvent>
#include <vector>

#include "gui/views/main_window.hpp"
#include "tests/gui/application.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

using test::scenario_path;
using test::wait_until_idle;

template <class W>
W* control(const QWidget& view, const char* accessible_name) {
  for (W* widget : view.findChildren<W*>()) {
    if (widget->accessibleName() == accessible_name) return widget;
  }
  return nullptr;
}

struct Opened {
  Session session;
  WhatIfView view{session};
  explicit Opened(const std::string& scenario) {
    session.open(scenario_path(scenario));
    wait_until_idle(session);
  }
};

TEST_CASE("without a scenario there is nothing to vary, and that is said", "[gui][views]") {
  test::application();
  Session session;
  WhatIfView view(session);
  view.show();
  QSlider* microbatches = control<QSlider>(view, "Microbatches");
  REQUIRE(microbatches != nullptr);
  const auto says = [&] {
    for (const QLabel* label : view.findChildren<QLabel*>()) {
      if (label->isVisible() && label->text().startsWith("Open a scenario")) return true;
    }
    return false;
  };
  CHECK_FALSE(microbatches->isVisible());
  CHECK(says());
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  CHECK(microbatches->isVisible());
  CHECK_FALSE(says());
}

TEST_CASE("a slider simulates the scenario with the value it is moved to", "[gui][views]") {
  test::application();
  Opened o("schedules/1f1b-p4-m8.toml");
  QSlider* microbatches = control<QSlider>(o.view, "Microbatches");
  REQUIRE(microbatches != nullptr);
  CHECK(microbatches->value() == 7);  // of 1, 2, 3 …: eight microbatches
  const double before = o.session.run()->report->step_time.v;
  QTest::keyClick(microbatches, Qt::Key_Right);
  wait_until_idle(o.session);
  CHECK(o.session.document().overrides ==
        std::vector<std::string>{"parallelism.pipeline_parallel_microbatches=9"});
  // A uniform pipeline: one more microbatch is one more forward and backward of the slowest stage.
  const double after = o.session.run()->report->step_time.v;
  CHECK(after > before);
  o.session.undo();
  wait_until_idle(o.session);
  CHECK(microbatches->value() == 7);
  CHECK(o.session.run()->report->step_time.v == before);
}

TEST_CASE("a number can be typed, and a schedule that needs chunks sets them", "[gui][views]") {
  test::application();
  Opened o("schedules/1f1b-p4-m8.toml");
  auto* typed = control<QLineEdit>(o.view, "Microbatches, typed");
  REQUIRE(typed != nullptr);
  CHECK(typed->text() == "8");
  typed->setText("100");  // the slider ends at 64
  emit typed->editingFinished();
  wait_until_idle(o.session);
  CHECK(o.session.run()->scenario->num_microbatches() == 100);
  CHECK(typed->text() == "100");
  auto* schedule = control<QComboBox>(o.view, "Schedule");
  const int at = schedule->findText("Interleaved1F1B");
  REQUIRE(at >= 0);
  schedule->setCurrentIndex(at);
  emit schedule->activated(at);
  wait_until_idle(o.session);
  CHECK(o.session.errors().empty());
  CHECK(o.session.run()->scenario->strategy.pipeline_parallel_virtual_stages == 2);
  o.session.undo();  // both at once
  wait_until_idle(o.session);
  CHECK(o.session.run()->scenario->strategy.pipeline_parallel_virtual_stages == 1);
  CHECK(o.session.run()->scenario->num_microbatches() == 100);
}

TEST_CASE("the words for a value fit into its entry", "[gui][views]") {
  test::application();
  Opened o("schedules/1f1b-p4-m8.toml");
  int words_seen = 0;
  for (const FormField& field : form_fields()) {
    for (const auto& [value, words] : field.words) {
      auto* typed = control<QLineEdit>(o.view, (field.label + ", typed").c_str());
      REQUIRE(typed != nullptr);
      // A line edit keeps two pixels on each side of its text, and its frame as many.
      CHECK(typed->fontMetrics().horizontalAdvance(QString::fromStdString(words)) + 8 <=
            typed->width());
      ++words_seen;
    }
  }
  CHECK(words_seen > 5);
}

TEST_CASE("a slider of a key that the scenario sweeps moves like any other", "[gui][views]") {
  test::application();
  Opened o("schedules/bubbles-p4.toml");  // a sweep of microbatches, with a list of expectations
  QSlider* microbatches = control<QSlider>(o.view, "Microbatches");
  REQUIRE(microbatches->isEnabled());
  CHECK(microbatches->value() == 3);  // of 1, 2, 3 …: the first point of the sweep, four
  microbatches->setValue(11);
  wait_until_idle(o.session);
  CHECK(o.session.errors().empty());
  CHECK(o.session.run()->report->step_time.v == Approx(45));  // (12 + 4 - 1) × 3
  REQUIRE(o.session.run()->notes.size() == 1);
  CHECK_THAT(o.session.run()->notes[0],
             ContainsSubstring("lists of expected values are not checked"));
  microbatches->setValue(15);  // in the sweep
  wait_until_idle(o.session);
  CHECK(o.session.run()->report->step_time.v == Approx(57));
  CHECK(o.session.run()->notes.empty());
}

TEST_CASE("the wheel is left to the form, and changes nothing below the mouse", "[gui][views]") {
  test::application();
  Opened opened("schedules/1f1b-p4-m8.toml");
  opened.view.show();
  const std::vector<QWidget*> below = {control<QSlider>(opened.view, "Microbatches"),
                                       control<QComboBox>(opened.view, "Schedule")};
  for (QWidget* widget : below) {
    REQUIRE(widget != nullptr);
    widget->setFocus();
    const QPointF middle = widget->rect().center();
    QWheelEvent event(middle, widget->mapToGlobal(middle), {}, {0, -120}, Qt::NoButton,
                      Qt::NoModifier, Qt::NoScrollPhase, false);
    QApplication::sendEvent(widget, &event);
    CHECK_FALSE(event.isAccepted());
  }
  CHECK(opened.session.document().overrides.empty());
}

TEST_CASE("dragging a slider through many values is one step of undo", "[gui][views]") {
  test::application();
  Opened o("schedules/1f1b-p4-m8.toml");
  QSlider* microbatches = control<QSlider>(o.view, "Microbatches");
  for (int at : {8, 9, 10, 11}) {
    microbatches->setValue(at);
    wait_until_idle(o.session);
  }
  CHECK(o.session.document().overrides.front() == "parallelism.pipeline_parallel_microbatches=12");
  o.session.undo();
  CHECK(o.session.document().overrides.empty());
  CHECK_FALSE(o.session.can_undo());
}

TEST_CASE("the list of schedules holds those that the scenario can run", "[gui][views]") {
  test::application();
  Opened o("schedules/1f1b-p4-m8.toml");
  QComboBox* schedule = control<QComboBox>(o.view, "Schedule");
  REQUIRE(schedule != nullptr);
  CHECK(schedule->currentText() == "1F1B");
  CHECK(schedule->findText("GPipe") >= 0);
  CHECK(schedule->findText("ZBVZeroBubble") >= 0);  // with the two chunks that it needs
  CHECK(schedule->findText("DualPipeV") >= 0);
  o.session.set_override("parallelism.pipeline_parallel_microbatches", "6");  // it needs 8
  wait_until_idle(o.session);
  CHECK(schedule->findText("DualPipeV") < 0);
  QTest::keyClick(schedule, Qt::Key_Home);
  wait_until_idle(o.session);
  CHECK(rules_of(o.session.run()->scenario->strategy.pipeline_parallel_schedule).name ==
        schedule->currentText().toStdString());
}

TEST_CASE("a box is ticked for what is on or off", "[gui][views]") {
  test::application();
  Opened o("data-parallel/overlap-param-gather.toml");  // a sweep: first without, then with
  QCheckBox* late = control<QCheckBox>(o.view, "Overlap gather");
  REQUIRE(late != nullptr);
  REQUIRE(late->isEnabled());
  CHECK_FALSE(late->isChecked());
  const double after_update = o.session.run()->report->step_time.v;
  QTest::keyClick(late, Qt::Key_Space);
  wait_until_idle(o.session);
  CHECK(late->isChecked());
  CHECK(o.session.run()->scenario->strategy.overlap_param_gather);
  CHECK(o.session.run()->report->step_time.v < after_update);
  QTest::keyClick(late, Qt::Key_Space);  // back to the text's own value: no override is left
  wait_until_idle(o.session);
  CHECK(o.session.document().overrides.empty());
  CHECK(o.session.run()->report->step_time.v == after_update);
}

TEST_CASE("reset takes an override back", "[gui][views]") {
  test::application();
  Opened o("schedules/1f1b-p4-m8.toml");
  o.session.set_override("parallelism.pipeline_parallel_microbatches", "16");
  wait_until_idle(o.session);
  QPushButton* reset = control<QPushButton>(o.view, "Reset Microbatches");
  REQUIRE(reset != nullptr);
  CHECK(reset->isEnabled());
  QTest::mouseClick(reset, Qt::LeftButton);
  wait_until_idle(o.session);
  CHECK(o.session.document().overrides.empty());
  CHECK_FALSE(reset->isEnabled());
}

TEST_CASE("a fault in the text is marked at its line, and what ran before stays on screen",
          "[gui][views]") {
  test::application();
  Opened o("schedules/1f1b-p4-m8.toml");
  auto* editor = o.view.findChild<QPlainTextEdit*>();
  auto* faults = o.view.findChild<QListWidget*>();
  const RunPtr before = o.session.run();
  const int lines = editor->blockCount();
  editor->appendPlainText("[parallelism.oops]");
  wait_until_idle(o.session);
  REQUIRE(faults->count() > 0);
  const int line = o.session.errors().front().where->line;
  CHECK(line >= lines);
  CHECK(faults->item(0)->text().startsWith(QString("line %1:").arg(line)));
  REQUIRE(editor->extraSelections().size() == 1);
  CHECK(editor->extraSelections().front().cursor.blockNumber() == line - 1);
  CHECK(o.session.run() == before);
  o.session.undo();
  wait_until_idle(o.session);
  CHECK(faults->count() == 0);
  CHECK(editor->extraSelections().empty());
  CHECK(editor->blockCount() == lines);
}

TEST_CASE("undo and redo work from the keyboard while the text has it, line by line",
          "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.resize(1366, 768);
  test::show_active(window);
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  window.show_view("what-if");
  test::named<QTabWidget>(window, "Sliders or text").setCurrentIndex(1);
  auto& editor = test::named<QPlainTextEdit>(window, "Scenario text");
  editor.setFocus();
  const std::string before = session.document().text;
  QTest::keyClicks(&editor, "# one\r# two");
  CHECK(session.document().text == "# one\n# two" + before);
  QTest::keyClick(&editor, Qt::Key_Z, Qt::ControlModifier);
  CHECK(session.document().text == "# one" + before);  // the new line was of the second step
  CHECK(editor.toPlainText().toStdString() == session.document().text);
  QTest::keyClick(&editor, Qt::Key_Z, Qt::ControlModifier);
  CHECK(session.document().text == before);
  CHECK_FALSE(session.is_modified());
  QTest::keyClick(&editor, Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
  QTest::keyClick(&editor, Qt::Key_Y, Qt::ControlModifier);
  CHECK(session.document().text == "# one\n# two" + before);
  wait_until_idle(session);
}

TEST_CASE("typing changes only what is typed: line ends and no-break spaces stay", "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  std::string text =
      "# 8\xc2\xa0microbatches\n" + read_bytes(scenario_path("schedules/1f1b-p4-m8.toml"));
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\r\n");
  }
  write_bytes(folder / "s.toml", text);
  Session session;
  WhatIfView view(session);
  session.open(folder / "s.toml");
  wait_until_idle(session);
  CHECK_FALSE(session.is_modified());
  auto* editor = view.findChild<QPlainTextEdit*>();
  QTest::keyClick(editor, Qt::Key_X);
  CHECK(session.document().text == "x" + text);
  session.undo();
  CHECK(session.document().text == text);
  CHECK_FALSE(session.is_modified());
  wait_until_idle(session);
}

TEST_CASE("undo of a change far below leaves the text where it is shown", "[gui][views]") {
  test::application();
  Session session;
  WhatIfView view(session);
  view.resize(400, 400);
  view.show();
  session.open(scenario_path("schedules/1f1b-p4-m8.toml"));
  wait_until_idle(session);
  auto* editor = view.findChild<QPlainTextEdit*>();
  editor->appendPlainText(QString("# line\n").repeated(200));
  auto cursor = editor->textCursor();
  cursor.movePosition(QTextCursor::End);
  editor->setTextCursor(cursor);
  const int line = cursor.blockNumber();
  QTest::keyClick(editor, Qt::Key_X);
  session.undo();
  CHECK(editor->textCursor().blockNumber() == line);
  wait_until_idle(session);
}

}  // namespace
}  // namespace lockstep::gui
