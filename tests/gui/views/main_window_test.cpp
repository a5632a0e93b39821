#include "gui/views/main_window.hpp"

#include <QDockWidget>
#include <QFileDialog>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMessageBox>
#include <QMimeData>
#include <QPushButton>
#include <QScreen>
#include <QSettings>
#include <QTest>
#include <QTimer>
#include <QToolButton>

#include "gui/draw/theme.hpp"
#include "gui/views/screenshot.hpp"
#include "gui/views/unsaved.hpp"
#include "gui/views/view_list.hpp"
#include "tests/gui/application.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

using test::scenario_path;

TEST_CASE("every view of the list opens, has a name for screen readers, and is found by its name",
          "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.show();
  for (const ViewEntry& entry : view_list()) {
    INFO(entry.name);
    CHECK(window.show_view(entry.name));
    REQUIRE(window.view(entry.name) != nullptr);
    CHECK_FALSE(window.view(entry.name)->accessibleName().isEmpty());
  }
  CHECK_FALSE(window.show_view("no such view"));
}

TEST_CASE("a message of one line takes one line, and is closed by the keyboard", "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.resize(1366, 768);
  test::show_active(window);
  QLabel& message = test::named<QLabel>(window, "Message");
  const int line = message.fontMetrics().lineSpacing();
  const QString words =
      "Lockstep was stopped before changes were saved. They are open again, and still not saved: "
      "/home/ann/scenarios/gpt3-175b-1024xa100.toml";
  window.tell(words);
  QCoreApplication::processEvents();
  CHECK(message.isVisible());
  CHECK(message.height() < 2 * line + 8);  // it was five lines high
  window.tell(words + words + words);
  QCoreApplication::processEvents();
  CHECK(message.height() > 2 * line);
  CHECK(message.height() >= message.heightForWidth(message.width()));
  QToolButton& close = test::named<QToolButton>(window, "Close the message");
  close.setFocus(Qt::TabFocusReason);
  CHECK(close.hasFocus());
  QTest::keyClick(&close, Qt::Key_Space);
  CHECK_FALSE(message.isVisible());
}

TEST_CASE("a screenshot shows what was opened, in the theme that was asked for", "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  for (const bool dark : {false, true}) {
    Session session;
    MainWindow window(session);
    window.set_theme(dark);
    window.resize(1200, 500);
    ScreenshotOptions options;
    options.file = QString::fromStdString(folder / "shot.png");
    options.open = {QString::fromStdString(scenario_path("schedules/1f1b-p4-m8.toml"))};
    options.view = "timeline";
    options.at = "50%";
    REQUIRE(take_screenshot(window, session, options).ok());
    CHECK(to_seconds(session.cursor()).v == Approx(173));
    const QImage image(options.file);
    CHECK(image.width() > 400);
    const Theme& theme = dark ? dark_theme() : light_theme();
    int background = 0, forward = 0;
    for (int x = 0; x < image.width(); ++x) {
      for (int y = 0; y < image.height(); ++y) {
        background += image.pixelColor(x, y) == theme.color(Ink::Background);
        forward += image.pixelColor(x, y) == theme.color(ink_of(Look::Forward));
      }
    }
    CHECK(background > 10'000);
    CHECK(forward > 1'000);
  }
}

TEST_CASE("what --set gives lies over the scenario that is shown", "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  Session session;
  MainWindow window(session);
  ScreenshotOptions options;
  options.file = QString::fromStdString(folder / "shot.png");
  options.open = {QString::fromStdString(scenario_path("schedules/1f1b-p4-m8.toml"))};
  options.set = {"parallelism.pipeline_parallel_schedule=GPipe",
                 "parallelism.pipeline_parallel_microbatches=4",
                 "parallelism.pipeline_parallel_microbatches=16"};  // the last one counts
  REQUIRE(take_screenshot(window, session, options).ok());
  CHECK(session.run()->scenario->strategy.pipeline_parallel_schedule == PipelineSchedule::GPipe);
  CHECK(session.run()->scenario->num_microbatches() == 16);
  CHECK(session.document().overrides ==
        std::vector<std::string>{"parallelism.pipeline_parallel_schedule=GPipe",
                                 "parallelism.pipeline_parallel_microbatches=16"});
  session.undo();  // as one step
  CHECK(session.document().overrides.empty());
  // A second scenario that does not take them is an error, although the first one is shown.
  options.open << QString::fromStdString(scenario_path("tiny/gpt2-ddp2.toml"));
  const Result<void> second = take_screenshot(window, session, options);
  REQUIRE_FALSE(second.ok());
  CHECK_THAT(to_string(second.error()), ContainsSubstring("microbatches"));
}

TEST_CASE("a screenshot of a bad file or of a bad time is an error", "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  Session session;
  MainWindow window(session);
  ScreenshotOptions options;
  options.file = QString::fromStdString(folder / "shot.png");
  options.open = {QString::fromStdString(folder / "absent.toml")};
  CHECK_FALSE(take_screenshot(window, session, options).ok());
  options.open = {QString::fromStdString(scenario_path("schedules/1f1b-p4-m8.toml"))};
  options.at = "later";
  const auto late = take_screenshot(window, session, options);
  REQUIRE_FALSE(late.ok());
  CHECK_THAT(late.error().message, ContainsSubstring("'later'"));
  options.at = "";
  options.file = QString::fromStdString(folder / "no/such/folder.png");
  CHECK_FALSE(take_screenshot(window, session, options).ok());
}

/// Clicks a button of the question that is asked next.
void answer(QMessageBox::StandardButton button) {
  QTimer::singleShot(0, [button] {
    auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
    REQUIRE(box != nullptr);
    box->button(button)->click();
  });
}

TEST_CASE("closing with a slider moved asks, and saving writes the slider", "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  const std::string file = folder / "mine.toml";
  write_bytes(file, read_bytes(scenario_path("schedules/1f1b-p4-m8.toml")));
  Session session;
  MainWindow window(session);
  window.show();
  window.open(QString::fromStdString(file));
  test::wait_until_idle(session);
  CHECK_FALSE(window.windowTitle().contains("*"));
  session.set_override("parallelism.pipeline_parallel_microbatches", "12");
  test::wait_until_idle(session);
  CHECK(window.windowTitle().contains("*"));
  answer(QMessageBox::Cancel);
  CHECK_FALSE(window.close());
  CHECK(window.isVisible());
  answer(QMessageBox::Save);
  CHECK(window.close());
  CHECK_THAT(read_bytes(file), ContainsSubstring("pipeline_parallel_microbatches = 12"));
  test::wait_until_idle(session);
  session.set_override("parallelism.pipeline_parallel_microbatches", "16");
  window.show();
  answer(QMessageBox::Discard);
  CHECK(window.close());
  CHECK_THAT(read_bytes(file), !ContainsSubstring("microbatches = 16"));
  test::wait_until_idle(session);
}

/// Types a name into the file dialog that comes next, and says yes to it.
void choose_file(const std::string& path) {
  QTimer::singleShot(0, [path] {
    auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
    REQUIRE(dialog != nullptr);
    auto* name = dialog->findChild<QLineEdit*>("fileNameEdit");
    REQUIRE(name != nullptr);
    name->setText(QString::fromStdString(path));
    REQUIRE(QMetaObject::invokeMethod(dialog, "accept"));
    if (dialog->isVisible()) dialog->reject();
  });
}

TEST_CASE("what another window has saved is not overwritten unasked", "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  const std::string file = folder / "mine.toml";
  write_bytes(file, read_bytes(scenario_path("schedules/1f1b-p4-m8.toml")));
  Session session;
  session.open(file);
  test::wait_until_idle(session);
  session.set_override("parallelism.pipeline_parallel_microbatches", "12");
  write_bytes(file, "# another's\n");
  QString error;
  answer(QMessageBox::Cancel);
  CHECK_FALSE(save_document(nullptr, session, false, error));
  CHECK(error.isEmpty());
  CHECK(read_bytes(file) == "# another's\n");
  CHECK(session.is_modified());
  answer(QMessageBox::Discard);  // Overwrite
  CHECK(save_document(nullptr, session, false, error));
  CHECK_THAT(read_bytes(file), ContainsSubstring("pipeline_parallel_microbatches = 12"));
  CHECK(save_document(nullptr, session, false, error));  // nothing is asked
  test::wait_until_idle(session);
}

TEST_CASE("a scenario saved under a name without an ending can be opened again", "[gui][views]") {
  test::application();
  QApplication::setAttribute(Qt::AA_DontUseNativeDialogs);
  const TemporaryFolder folder;
  Session session;
  session.edit({read_bytes(scenario_path("schedules/1f1b-p4-m8.toml")), {}});  // it has no file
  test::wait_until_idle(session);
  QString error;
  choose_file(folder / "mine");
  CHECK(save_document(nullptr, session, false, error));
  CHECK(session.path() == folder / "mine.toml");
  CHECK(read_bytes(folder / "mine.toml") == session.document().text);
  test::wait_until_idle(session);
}

TEST_CASE("a file has one name among the recent files, however it is written", "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  QSettings settings(QString::fromStdString(folder / "kept.ini"), QSettings::IniFormat);
  const QString path = QString::fromStdString(scenario_path("schedules/1f1b-p4-m8.toml"));
  Session session;
  MainWindow window(session);
  window.remember(settings);
  window.open(path);
  window.open(QString(path).replace("/schedules/", "/tiny/../schedules/./"));
  test::wait_until_idle(session);
  CHECK(window.recent_files() == QStringList{path});
  CHECK(session.items().size() == 1);
}

TEST_CASE("a first start fits the screen, and a small window still shows every panel's controls",
          "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  QSettings settings(QString::fromStdString(folder / "none.ini"), QSettings::IniFormat);
  Session session;
  MainWindow window(session);
  window.remember(settings);
  window.show();
  window.show_view("what-if");  // panels are away as long as nothing is open
  const QRect room = window.screen()->availableGeometry();
  CHECK(window.width() <= room.width());
  CHECK(window.height() <= room.height());
  CHECK(window.minimumSizeHint().width() <= 1000);
  CHECK(window.minimumSizeHint().height() <= 668);  // 1000 × 700, less the title bar
}

TEST_CASE("panels leave their room to the start page, and come back as they were arranged",
          "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  QSettings settings(QString::fromStdString(folder / "kept.ini"), QSettings::IniFormat);
  const auto shown = [](const MainWindow& window) {
    QStringList names;
    for (const QDockWidget* dock : window.findChildren<QDockWidget*>()) {
      if (!dock->isHidden()) names << dock->objectName();
    }
    return names;
  };
  QStringList arranged;
  for (const bool first : {true, false}) {
    Session session;
    MainWindow window(session);
    window.remember(settings);
    window.resize(1366, 768);
    window.show();
    CHECK(shown(window).isEmpty());
    CHECK(window.centralWidget()->height() > 600);
    window.open(QString::fromStdString(scenario_path("schedules/1f1b-p4-m8.toml")));
    test::wait_until_idle(session);
    if (first) {
      CHECK(shown(window).contains("memory-dock"));
      window.findChild<QDockWidget*>("memory-dock")->close();
      arranged = shown(window);
    }
    CHECK_FALSE(shown(window).contains("memory-dock"));
    CHECK(shown(window) == arranged);
    window.close();
    Session nothing;
    MainWindow empty(nothing);
    empty.remember(settings);
    empty.show();
    empty.close();  // with nothing open: the arrangement stays what it was
  }
}

TEST_CASE("what is chosen on the start page leaves the keyboard to the timeline", "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.resize(1366, 768);
  test::show_active(window);
  QListWidget& lessons = test::named<QListWidget>(window, "Lessons");
  const QRect row = lessons.visualItemRect(lessons.item(5));
  QTest::mouseClick(lessons.viewport(), Qt::LeftButton, {}, row.center());
  test::wait_until_idle(session);
  REQUIRE(session.run());
  const QWidget* focus = QApplication::focusWidget();
  REQUIRE(focus != nullptr);
  INFO(focus->accessibleName().toStdString());
  CHECK(focus == window.centralWidget()->focusProxy());  // Space plays, and is not typed
}

TEST_CASE("a trace from elsewhere brings its summary to the front, unless views were asked for",
          "[gui][views]") {
  test::application();
  const QString profile = QString(LOCKSTEP_SOURCE_DIR) + "/tests/data/kineto";
  for (const bool asked : {false, true}) {
    Session session;
    MainWindow window(session);
    window.resize(1366, 768);
    window.show();
    window.show_view("what-if");
    if (asked) window.keep_views_in_front();
    window.open(profile);
    test::wait_until_idle(session);
    CHECK(window.view("summary")->visibleRegion().isEmpty() == asked);
  }
}

}  // namespace
}  // namespace lockstep::gui
