#include "gui/views/search_view.hpp"

#include <QLabel>
#include <QPushButton>
#include <QTableView>
#include <QTest>
#include <algorithm>

#include "core/format/format.hpp"
#include "core/run_folder/run_folder.hpp"
#include "tests/gui/application.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

constexpr const char* kTiny =
    "[model]\npreset = \"gpt2-tiny\"\n[training]\nglobal_batch_size = 16\n"
    "[cluster]\npreset = \"a100-80\"\ndevices_per_node = 4\n"
    "[parallelism]\ndata_parallel_replicate_degree = 4\n[framework]\npreset = \"lockstep\"\n";

class Panel {
 public:
  explicit Panel(const std::string& text) : view(session) {
    view.resize(1000, 400);
    view.show();
    write_bytes(folder_ / "s.toml", text);
    session.open(folder_ / "s.toml");
    test::wait_until_idle(session);
  }
  QPushButton& button(const QString& label) {
    for (QPushButton* b : view.findChildren<QPushButton*>()) {
      if (b->text() == label) return *b;
    }
    FAIL("no button " << label.toStdString());
    std::abort();
  }
  QString state() {
    for (QLabel* label : view.findChildren<QLabel*>()) {
      if (label->accessibleName() == "State of the search") return label->text();
    }
    return {};
  }
  void search() {
    QTest::mouseClick(&button("Search"), Qt::LeftButton);
    test::wait_until_idle(session);
  }
  QTableView& table() { return *view.findChild<QTableView*>(); }
  int rows() { return table().model()->rowCount(); }
  QString cell(int row, int column) {
    return table().model()->index(row, column).data().toString();
  }
  /// The row that is marked as the open scenario; -1 if none is.
  int open_row() {
    for (int row = 0; row < rows(); ++row) {
      if (cell(row, 0).startsWith("open")) return row;
    }
    return -1;
  }

 private:
  const TemporaryFolder folder_;

 public:
  Session session;
  SearchView view;
};

TEST_CASE("a search lists the layouts, and the open scenario among them", "[gui][views]") {
  test::application();
  Session nothing;
  CHECK_FALSE(SearchView(nothing).findChild<QPushButton*>()->isEnabled());
  Panel panel(kTiny);
  CHECK(panel.button("Search").isEnabled());
  CHECK_FALSE(panel.button("Stop").isEnabled());
  CHECK(panel.rows() == 0);
  panel.search();
  CHECK(panel.view.search().found().layouts.size() > 3);
  CHECK(panel.rows() >= static_cast<int>(panel.view.search().found().layouts.size()));
  CHECK(panel.state().startsWith(
      "gpt2-tiny on a100-80 with Lockstep's own kernels, 16 sequences of 128 tokens a step: "));
  CHECK(panel.state().contains(" cannot win, "));
  CHECK(panel.state().contains(" simulated, and the best with "));
  CHECK(panel.state().endsWith(" in all"));
  const int open = panel.open_row();
  REQUIRE(open >= 0);
  CHECK(panel.cell(open, 1) == "dp 4 DDP · 4 × 1");
  panel.session.set_override("training.global_batch_size", "8");  // another task: no longer there
  test::wait_until_idle(panel.session);
  CHECK(panel.open_row() == -1);
  CHECK(panel.rows() == static_cast<int>(panel.view.search().found().layouts.size()));
}

TEST_CASE("double click and Enter open a layout as a document beside the scenario",
          "[gui][views]") {
  test::application();
  Panel panel(kTiny);
  panel.search();
  const Document before = panel.session.document();
  QTableView& table = panel.table();
  QObject::connect(&panel.session, &Session::failed, &panel.session,
                   [](const QString& message) { FAIL_CHECK(message.toStdString()); });
  const auto expect_open = [&](int row, const QString& layout, const QString& step_time) {
    test::wait_until_idle(panel.session);
    for (const Error& error : panel.session.errors()) FAIL(to_string(error));
    CHECK(QString::fromStdString(panel.session.path()).endsWith("/s, " + layout + ".toml"));
    CHECK_FALSE(panel.session.has_own_file());
    const std::string& text = panel.session.document().text;
    CHECK(text.starts_with("[model]\npreset = \"gpt2-tiny\"\n"));
    CHECK(std::count(text.begin(), text.end(), '\n') < 20);  // the base's lines and what differs
    CHECK(panel.open_row() == row);
    CHECK(panel.cell(row, 4) == step_time);
    CHECK(panel.session.run()->scenario == panel.session.simulation()->scenario);
  };

  REQUIRE(panel.cell(0, 0) == "1");
  const QString first = panel.cell(0, 1), first_time = panel.cell(0, 4);
  const QPoint place = table.visualRect(table.model()->index(0, 1)).center();
  QTest::mouseClick(table.viewport(), Qt::LeftButton, {}, place);
  CHECK(panel.session.document() == before);  // a click is no order
  QTest::mouseDClick(table.viewport(), Qt::LeftButton, {}, place);
  expect_open(0, first, first_time);

  const QString second = panel.cell(1, 1), second_time = panel.cell(1, 4);
  table.setCurrentIndex(table.model()->index(1, 0));
  QTest::keyClick(&table, Qt::Key_Return);
  expect_open(1, second, second_time);
  CHECK(table.currentIndex().row() == 1);  // where the user was

  CHECK(panel.session.items().size() == 3);
  panel.session.show(panel.session.items()[1]);
  expect_open(0, first, first_time);
  panel.session.show(panel.session.items()[0]);
  CHECK(panel.session.document() == before);
}

TEST_CASE("a point of the picture chooses its row, and a double click opens it", "[gui][views]") {
  test::application();
  Panel panel(kTiny);
  panel.search();
  // Without a meta-object of its own, findChild<LayoutsCanvas*> would take any widget for one.
  LayoutsCanvas* canvas = nullptr;
  for (QWidget* child : panel.view.findChildren<QWidget*>()) {
    if (auto* found = dynamic_cast<LayoutsCanvas*>(child)) canvas = found;
  }
  REQUIRE(canvas);
  canvas->resize(900, 300);
  const auto& layouts = panel.view.search().found().layouts;
  const QPoint at = canvas->frame().place(*layouts.front()).toPoint();
  QTest::mouseClick(canvas, Qt::LeftButton, {}, at);
  const int line = panel.table().currentIndex().row();
  REQUIRE(line >= 0);
  const std::string chosen = panel.cell(line, 1).toStdString();
  QTest::mouseDClick(canvas, Qt::LeftButton, {}, at);
  test::wait_until_idle(panel.session);
  CHECK(panel.session.path().ends_with("/s, " + chosen + ".toml"));
}

TEST_CASE("the order that the user chose stays while layouts arrive", "[gui][views]") {
  test::application();
  Panel panel(kTiny);
  panel.table().sortByColumn(4, Qt::DescendingOrder);
  panel.search();
  const std::size_t count = panel.view.search().found().layouts.size();
  REQUIRE(panel.rows() >= static_cast<int>(count));
  const auto& layouts = panel.view.search().found().layouts;
  Seconds slowest =
      panel.session.simulation()->report.value().step_time;  // the open one has a row, too
  for (const JudgedLayoutPtr& layout : layouts) slowest = std::max(slowest, layout->step_time);
  CHECK(panel.cell(0, 4).toStdString() == time_text(slowest));
}

TEST_CASE("a search that cannot be made says why in its panel", "[gui][views]") {
  test::application();
  Panel panel(kTiny);
  panel.session.edit({std::string(kTiny) + "[modell]\n[trainning]\n", {}});
  panel.search();
  CHECK(panel.state().contains("s.toml:12:2: unknown section [modell]"));
  CHECK(panel.state().endsWith("(and 1 more)"));
  CHECK(panel.rows() == 0);
  CHECK(panel.button("Search").isEnabled());
}

TEST_CASE("a search is stopped at once, and says how far it came", "[gui][views]") {
  test::application();
  Panel panel(
      "[model]\npreset = \"llama3-70b\"\n[training]\nseq_len = 8192\nglobal_batch_size = 256\n"
      "mixed_precision_param = \"bfloat16\"\n[cluster]\npreset = \"h100\"\nnodes = 16\n");
  QTest::mouseClick(&panel.button("Search"), Qt::LeftButton);
  CHECK_FALSE(panel.button("Search").isEnabled());
  while (panel.rows() == 0 && panel.view.search().active()) {
    QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
  }
  REQUIRE(panel.view.search().active());
  QTest::mouseClick(&panel.button("Stop"), Qt::LeftButton);
  CHECK_FALSE(panel.view.search().active());
  CHECK(panel.rows() > 0);
  CHECK(panel.state().endsWith("; stopped before the end"));
  CHECK(panel.button("Search").isEnabled());
}

}  // namespace
}  // namespace lockstep::gui
