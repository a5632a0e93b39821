#include "gui/model/timeline/timeline_tables.hpp"

#include <QAbstractItemModelTester>

#include "tests/gui/application.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

using test::kMs;

RunPtr small_run() {
  Trace trace = test::empty_trace(2);
  trace.spans = {test::span(0, 0, 0 * kMs, 10 * kMs), test::span(0, 1, 20 * kMs, 50 * kMs),
                 test::span(1, 2, 10 * kMs, 30 * kMs), test::span(1, 48, 0 * kMs, 5 * kMs)};
  return make_run("small", std::move(trace));
}

std::string column(const TableModel& model, int column) {
  std::string text;
  for (int row = 0; row < model.rowCount(); ++row) {
    text += model.data(model.index(row, column), Qt::DisplayRole).toString().toStdString() + ";";
  }
  return text;
}

int find(const TableModel& model, const char* title) {
  for (int c = 0; c < model.columnCount(); ++c) {
    if (model.headerData(c, Qt::Horizontal, Qt::DisplayRole).toString() == title) return c;
  }
  return -1;
}

TEST_CASE("the table of spans has a row for each span, and its rows lead back", "[gui][model]") {
  test::application();
  const RunPtr run = small_run();
  TimelineTable table = span_table(run, {});
  TableModel model;
  const QAbstractItemModelTester tester(&model);
  model.set(table.content);
  CHECK(model.rowCount() == 4);
  CHECK(column(model, find(model, "Rank")) == "0;0;1;1;");
  CHECK(column(model, find(model, "Kind")) == "forward;backward;forward;all-gather;");
  model.sort(find(model, "Runs"), Qt::DescendingOrder);
  CHECK(column(model, find(model, "Runs")) == "30 ms;20 ms;10 ms;5 ms;");
  CHECK(table.target(model.source(0)).span == SpanId{1});
  model.sort(-1, Qt::AscendingOrder);
  CHECK(model.source(0) == 0);
}

TEST_CASE("an area restricts the tables to its time and ranks", "[gui][model]") {
  test::application();
  const RunPtr run = small_run();
  TableModel model;
  model.set(span_table(run, {std::nullopt, TimeRange{12 * kMs, 25 * kMs}, {}}).content);
  CHECK(column(model, find(model, "Rank")) == "0;1;");
  const TimelineTable one = span_table(run, {std::nullopt, TimeRange{0 * kMs, 12 * kMs}, {1}});
  model.set(one.content);
  CHECK(column(model, find(model, "Kind")) == "forward;all-gather;");
  CHECK(one.target(1).span == SpanId{3});
}

TEST_CASE("bubbles are listed with their causes and add up to the idle time", "[gui][model]") {
  test::application();
  const RunPtr run = small_run();
  const TimelineTable table = bubble_table(run, {});
  SimTime idle{};
  for (std::size_t row = 0; row < table.content.rows; ++row) {
    const Selection target = table.target(row);
    idle += target.range->end - target.range->begin;
  }
  CHECK(idle == 10 * kMs + 10 * kMs + 20 * kMs);  // 50 - 40 on rank 0, 50 - 20 on rank 1
  CHECK(run->steps.front().bubbles.idle() == idle);
}

TEST_CASE("statistics are of the selected area, per kind and per rank", "[gui][model]") {
  test::application();
  const RunPtr run = small_run();
  TableModel model;
  model.set(statistics_table(run, {}).content);
  CHECK(column(model, 0) == "all;all_gather;backward;forward;rank 0 (pp0);rank 1 (pp1);");
  CHECK(column(model, find(model, "Count")) == "4;1;1;2;2;2;");
  CHECK(column(model, find(model, "Total")) == "65 ms;5 ms;30 ms;30 ms;40 ms;25 ms;");
  CHECK(column(model, find(model, "Average")) == "16.25 ms;5 ms;30 ms;15 ms;20 ms;12.5 ms;");
  model.set(statistics_table(run, {std::nullopt, TimeRange{0 * kMs, 8 * kMs}, {1}}).content);
  CHECK(column(model, 0) == "all;all_gather;rank 1 (pp1);");
}

TEST_CASE("tables are written as CSV, with quotes where they are needed", "[gui][model]") {
  TableModel model;
  model.set({{{"name, of", [](std::size_t row) { return row == 0 ? "a,b" : "say \"c\""; }},
              {"n", [](std::size_t row) { return std::to_string(row); }}},
             2});
  CHECK(csv(model) == "\"name, of\",n\n\"a,b\",0\n\"say \"\"c\"\"\",1\n");
}

TEST_CASE("ten million rows open at once, and keep their order", "[gui][model]") {
  TableModel model;
  model.set({{{"n", [](std::size_t row) { return std::to_string(row); },
               [](std::size_t row) { return -static_cast<double>(row); }}},
             10'000'000});
  CHECK(model.rowCount() == 10'000'000);
  model.sort(0, Qt::AscendingOrder);
  CHECK(model.data(model.index(9'999'999, 0), Qt::DisplayRole).toString() == "9999999");
}

}  // namespace
}  // namespace lockstep::gui
