#include "gui/views/palette.hpp"

#include <QDockWidget>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QSettings>
#include <QTest>
#include <QTreeWidget>
#include <algorithm>

#include "core/lower/lower.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "gui/draw/theme.hpp"
#include "gui/views/main_window.hpp"
#include "gui/views/timeline_panel.hpp"
#include "gui/views/timeline_view.hpp"
#include "tests/gui/application.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("commands are found by parts of their names, beginnings first", "[gui][views]") {
  const std::vector<CommandGroup> groups = {
      {"Timeline", {{"Zoom in", {}, {}}, {"Critical path", {}, {}}}, {}},
      {"Window", {{"Open", {}, {}}, {"Zoom the window", {}, {}}}, {}}};
  CHECK(matching(groups, "").size() == 4);
  CHECK(matching(groups, "ZOOM window") == std::vector<std::size_t>{3});
  CHECK(matching(groups, "path time") == std::vector<std::size_t>{1});
  CHECK(matching(groups, "o").front() == 2);  // "Open" begins with it
  CHECK(matching(groups, "nothing").empty());
}

TEST_CASE("the palette runs the chosen command", "[gui][views]") {
  test::application();
  int ran = 0;
  CommandPalette palette(
      {{"A", {{"one", {}, [&] { ran = 1; }}, {"two", {}, [&] { ran = 2; }}}, {}}}, nullptr);
  palette.show();
  auto* words = palette.findChild<QLineEdit*>();
  QTest::keyClick(words, Qt::Key_Down);
  QTest::keyClick(words, Qt::Key_Return);
  CHECK(ran == 2);
  CHECK_FALSE(palette.isVisible());
}

TEST_CASE("the sheet lists every command that has a key", "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  const auto groups = window.commands();
  std::size_t expected = 0;
  for (const CommandGroup& group : groups) {
    for (const Command& command : group.commands) expected += !command.keys.empty();
    expected += group.gestures.size();
  }
  CHECK(expected > 30);
  const KeySheet sheet(groups, nullptr);
  const auto* tree = sheet.findChild<QTreeWidget*>();
  int listed = 0;
  for (int i = 0; i < tree->topLevelItemCount(); ++i) listed += tree->topLevelItem(i)->childCount();
  CHECK(static_cast<std::size_t>(listed) == expected);
}

TEST_CASE("recent files are kept newest first, each once, ten at most", "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  QSettings settings(QString::fromStdString(folder / "settings.ini"), QSettings::IniFormat);
  Session session;
  MainWindow window(session);
  window.remember(settings);
  for (int i = 0; i < 12; ++i) window.open(QString("/no/such/file%1.toml").arg(i));
  window.open("/no/such/file5.toml");
  CHECK(window.recent_files().size() == 10);
  CHECK(window.recent_files().front() == "/no/such/file5.toml");
  CHECK(window.recent_files().count("/no/such/file5.toml") == 1);
}

TEST_CASE("the window comes back as it was left, and reset brings the first arrangement",
          "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  QSettings settings(QString::fromStdString(folder / "settings.ini"), QSettings::IniFormat);
  {
    Session session;
    MainWindow window(session);
    window.remember(settings);
    window.show();
    window.set_theme(true);
    window.findChild<QDockWidget*>("table-dock")->hide();
    window.close();
  }
  Session session;
  MainWindow window(session);
  window.remember(settings);
  window.show();
  CHECK(theme_for(QApplication::palette()).dark);
  CHECK(window.findChild<QDockWidget*>("table-dock")->isHidden());
  window.reset_layout();
  CHECK_FALSE(window.findChild<QDockWidget*>("table-dock")->isHidden());
  window.set_theme(false);
}

TEST_CASE("a bad file is told in the window, and a good one takes the message away",
          "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.show();
  window.open("/no/such/file.toml");
  test::wait_until_idle(session);
  const auto labels = window.findChildren<QLabel*>();
  const auto message = std::find_if(labels.begin(), labels.end(), [](const QLabel* label) {
    return label->accessibleName() == "Message";
  });
  REQUIRE(message != labels.end());
  CHECK((*message)->isVisible());
  CHECK((*message)->text().contains("/no/such/file.toml"));
  window.open(QString::fromStdString(test::scenario_path("schedules/1f1b-p4-m8.toml")));
  test::wait_until_idle(session);
  CHECK_FALSE((*message)->isVisible());
}

TEST_CASE("marks and pins of a file are kept with the window", "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  const QString file = QString::fromStdString(test::scenario_path("schedules/1f1b-p4-m8.toml"));
  QSettings settings(QString::fromStdString(folder / "settings.ini"), QSettings::IniFormat);
  {
    Session session;
    MainWindow window(session);
    window.remember(settings);
    window.show();
    window.open(file);
    test::wait_until_idle(session);
    session.toggle_mark();
    session.set_layout(toggled_pin(session.layout(), "rank 1"));
    window.close();
  }
  Session session;
  MainWindow window(session);
  window.remember(settings);
  window.open(file);
  test::wait_until_idle(session);
  CHECK(session.marks().size() == 1);
  CHECK(session.layout().pinned == std::vector<RowKey>{"rank 1"});
}

TEST_CASE("everything that can be exported is written, and what cannot is told", "[gui][views]") {
  test::application();
  const TemporaryFolder folder;
  Session session;
  MainWindow window(session);
  window.resize(1000, 600);
  window.show();
  window.open(QString::fromStdString(test::scenario_path("schedules/1f1b-p4-m8.toml")));
  test::wait_until_idle(session);
  const auto labels = window.findChildren<QLabel*>();
  const QLabel* message = *std::find_if(labels.begin(), labels.end(), [](const QLabel* label) {
    return label->accessibleName() == "Message";
  });
  for (const Export& what : export_list()) {
    INFO(what.title);
    window.export_to(what, QString::fromStdString(folder / what.file));
    test::wait_until_idle(session);
    CHECK_FALSE(message->isVisible());
    CHECK_FALSE(read_bytes(folder / what.file).empty());
  }
  const std::string svg = read_bytes(folder / "timeline.svg");
  CHECK_THAT(svg, ContainsSubstring("rank 0 (pp0)"));
  CHECK_THAT(svg, ContainsSubstring("#0072b2"));
  CHECK_THAT(svg, ContainsSubstring("warm-up"));  // the legend
  const TimelineView& timeline = static_cast<TimelinePanel*>(window.centralWidget())->timeline();
  const QImage picture(QString::fromStdString(folder / "timeline.png"));
  CHECK(picture.width() == 2 * timeline.width());
  CHECK(picture.height() > 2 * timeline.height());  // with the legend
  const auto trace = read_any_trace(folder / "trace.json.gz");
  REQUIRE(trace.ok());
  CHECK(trace->trace.spans == session.run()->trace.spans);
  const std::string spans = read_bytes(folder / "spans.csv");
  CHECK(static_cast<std::size_t>(std::count(spans.begin(), spans.end(), '\n')) ==
        1 + session.run()->trace.spans.size());
  const auto schedule = parse_schedule_csv(read_bytes(folder / "schedule.csv"), "schedule.csv");
  REQUIRE(schedule.ok());
  CHECK(*schedule == lower_schedule(*session.run()->scenario));

  for (const Export& what : export_list()) {
    INFO(what.title);
    window.export_to(what, "/no/such/folder/file");
    test::wait_until_idle(session);
    CHECK(message->text().contains("/no/such/folder/file"));
  }
  window.open(QString::fromStdString(test::scenario_path("tiny/gpt2-ddp2.toml")));
  test::wait_until_idle(session);
  window.export_to(export_list().back(), QString::fromStdString(folder / "none.csv"));
  CHECK(message->text().contains("pipeline"));
}

TEST_CASE("a row is found by its name, folded and filtered away as it may be", "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.show();
  window.open(QString::fromStdString(test::scenario_path("schedules/1f1b-p4-m8.toml")));
  test::wait_until_idle(session);
  TimelineView& timeline = dynamic_cast<TimelinePanel*>(window.centralWidget())->timeline();
  session.set_layout(folded_ranks(*session.run(), session.layout(), true));
  CommandPalette palette({{"Row", timeline.row_commands(), {}}}, &window, "row");
  palette.show();
  auto* words = palette.findChild<QLineEdit*>();
  QTest::keyClicks(words, "rank 2 recv_b");
  QTest::keyClick(words, Qt::Key_Return);
  const auto& rows = timeline.layout_now().rows;
  CHECK(std::any_of(rows.begin(), rows.end(),
                    [](const Row& row) { return row.key == "rank 2/recv_backward"; }));
}

TEST_CASE("the search has the key that other tools give it", "[gui][views]") {
  test::application();
  Session session;
  MainWindow window(session);
  window.show();
  window.activateWindow();
  auto* panel = dynamic_cast<TimelinePanel*>(window.centralWidget());
  QTest::keyClick(&panel->timeline(), Qt::Key_Slash);
  CHECK(dynamic_cast<QLineEdit*>(window.focusWidget()) != nullptr);
}

}  // namespace
}  // namespace lockstep::gui
