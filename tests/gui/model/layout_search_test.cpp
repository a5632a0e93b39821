#include "gui/model/layout_search.hpp"

#include <set>

#include "core/base/read_file.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

constexpr const char* kTiny =
    "[model]\npreset = \"gpt2-tiny\"\n[training]\nglobal_batch_size = 16\n"
    "[cluster]\npreset = \"a100-80\"\ndevices_per_node = 4\n"
    "[parallelism]\ndata_parallel_replicate_degree = 4\n";

/// A scenario with hundreds of layouts, each of which takes a tenth of a second.
constexpr const char* kLarge =
    "[model]\npreset = \"llama3-70b\"\n[training]\nseq_len = 8192\nglobal_batch_size = 256\n"
    "mixed_precision_param = \"bfloat16\"\n[cluster]\npreset = \"h100\"\nnodes = 16\n";

void wait_for(const LayoutSearch& search, const std::function<bool()>& arrived) {
  while (search.active() && !arrived()) {
    QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
  }
}

void wait_for(const LayoutSearch& search) {
  wait_for(search, [] { return false; });
}

TEST_CASE("a search ends with what the command line finds", "[gui][model]") {
  test::application();
  int changes = 0;
  LayoutSearch search([&] { ++changes; });
  CHECK_FALSE(search.active());
  // One block makes no pipeline, so that the best is a layout with buckets to choose.
  const std::vector<std::string> set = {"training.global_batch_size=8", "model.layers=1"};
  search.start({kTiny, set}, "s.toml");
  CHECK(search.active());
  CHECK(changes == 1);
  wait_for(search);
  CHECK(changes >= 2);
  const LayoutsFound& found = search.found();
  CHECK(found.errors.empty());

  const LoadedScenario loaded = parse_scenario(kTiny, "s.toml", set);
  REQUIRE(loaded.ok());
  const auto expected =
      search_space(loaded.points.front().scenario, simulated_layout, simulated_probe, {});
  REQUIRE(expected.ok());
  REQUIRE(found.layouts.size() > 3);
  REQUIRE(found.layouts.size() >= expected->estimated.size());
  for (std::size_t i = 0; i < expected->found.size(); ++i) {
    REQUIRE(found.layouts[i]->simulated);
    CHECK(found.layouts[i]->scenario == expected->found[i].scenario);
    CHECK(found.layouts[i]->step_time == expected->found[i].figures.step_time);
  }
  CHECK(found.task ==
        "gpt2-tiny on a100-80 as torch-compile runs it, 8 sequences of 128 tokens a step");
  CHECK(found.counts.layouts == expected->counts.layouts);
  CHECK(found.counts.estimated == expected->counts.estimated);
  CHECK(found.counts.simulated == expected->counts.simulated);
  CHECK(found.counts.settings == expected->counts.settings);
  CHECK(found.counts.settings > 0);
  CHECK(found.lost.size() == expected->lost.size());
  // The best has one row, whatever its settings, and with its estimate, by which others are slower.
  CHECK(found.layouts.front()->estimated);
  for (std::size_t i = 1; i < found.layouts.size(); ++i) {
    CHECK(found.layouts[i]->point != found.layouts.front()->point);
  }
  CHECK_FALSE(found.stopped);
}

TEST_CASE("layouts come as they are found, and stay when the search is stopped", "[gui][model]") {
  test::application();
  std::size_t told = 0;
  LayoutSearch* self = nullptr;
  LayoutSearch search([&] {
    if (self) told = self->found().layouts.size();
  });
  self = &search;
  search.start({kLarge, {}}, "s.toml");
  wait_for(search, [&] { return told > 1; });
  REQUIRE(search.active());
  CHECK(search.found().counts.layouts > 10'000);
  search.stop();
  CHECK_FALSE(search.active());
  CHECK(search.found().stopped);
  CHECK(search.found().layouts.size() > 1);

  // The next search shows nothing of the one before.
  search.start({kTiny, {}}, "s.toml");
  CHECK(search.found().layouts.empty());
  wait_for(search);
  CHECK(search.found().task.starts_with("gpt2-tiny"));
  CHECK_FALSE(search.found().stopped);
  for (const JudgedLayoutPtr& layout : search.found().layouts) {
    CHECK(layout->scenario.model.name == "gpt2-tiny");
  }
}

TEST_CASE("a search that cannot be made says why", "[gui][model]") {
  test::application();
  LayoutSearch search([] {});
  const auto message = [&](const std::string& text, std::vector<std::string> overrides = {}) {
    search.start({text, std::move(overrides)}, "s.toml");
    wait_for(search);
    CHECK(search.found().layouts.empty());
    REQUIRE(search.found().errors.size() == 1);
    return to_string(search.found().errors.front());
  };
  CHECK_THAT(message(std::string(kTiny) + "[modell]\n"),
             ContainsSubstring("s.toml:10:2: unknown section [modell]"));
  CHECK_THAT(message(kTiny, {"cluster.device.memory_gb=0.0001"}), ContainsSubstring("memory"));
  const auto synthetic = read_file(test::scenario_path("schedules/1f1b-p4-m8.toml"));
  REQUIRE(synthetic.ok());
  CHECK_THAT(message(*synthetic), ContainsSubstring("synthetic model has times for one layout"));
}

TEST_CASE("the open scenario has its row in the table of layouts", "[gui][model]") {
  test::application();
  LayoutSearch search([] {});
  search.start({kTiny, {}}, "s.toml");
  wait_for(search);
  const LayoutsFound& found = search.found();
  REQUIRE(found.layouts.size() > 3);
  const auto simulation = [](const std::string& text, const std::vector<std::string>& overrides) {
    const Cancelled never = false;
    const Outcome outcome = simulate(text, "s.toml", overrides, never);
    REQUIRE(outcome.run);
    return outcome.run;
  };
  const auto open_row = [](const std::vector<LayoutRow>& rows) -> const LayoutRow* {
    const LayoutRow* open = nullptr;
    for (const LayoutRow& row : rows) {
      if (!row.open) continue;
      CHECK(open == nullptr);
      open = &row;
    }
    return open;
  };

  CHECK(open_row(layout_rows(found, nullptr)) == nullptr);
  // Each layout that was found is the open row when it is opened.
  for (std::size_t i = 0; i < found.layouts.size(); i += 3) {
    const JudgedLayoutPtr& layout = found.layouts[i];
    const std::string text = layout_file(layout->scenario);
    INFO(text);
    const auto rows = layout_rows(found, simulation(text, {}));
    CHECK(rows.size() == found.layouts.size());
    const LayoutRow* row = open_row(rows);
    REQUIRE(row);
    CHECK(row->layout->name == layout_name(layout->scenario));
    CHECK_THAT(text, ContainsSubstring("# Found by lockstep search: " + row->layout->name));
  }
  // A layout that a search does not try has its place by its speed.
  const auto rows = layout_rows(found, simulation(kTiny, {"parallelism.bucket_cap_mb=1"}));
  REQUIRE(rows.size() == found.layouts.size() + 1);
  const LayoutRow* row = open_row(rows);
  REQUIRE(row);
  CHECK(row->rank == 0);
  for (const LayoutRow* other = rows.data(); other < row; ++other) {
    CHECK(other->layout->step_time <= row->layout->step_time);
  }
  // A scenario with another batch or cluster has no row.
  CHECK(open_row(layout_rows(found, simulation(kTiny, {"training.global_batch_size=8"}))) ==
        nullptr);
  CHECK(open_row(layout_rows(found, simulation(kTiny, {"what_if.bandwidth_factor=2.0"}))) ==
        nullptr);

  TableModel table;
  table.set(layout_content(rows, found.trained_on));
  CHECK(table.headerData(2, Qt::Horizontal, Qt::DisplayRole).toString() == "tokens/s");
  const auto cell = [&](int line, int column) {
    return table.data(table.index(line, column), Qt::DisplayRole).toString().toStdString();
  };
  CHECK(cell(0, 0) == "1");
  CHECK(cell(0, 1) == layout_name(found.layouts.front()->scenario));
  CHECK(cell(static_cast<int>(row - rows.data()), 0) == "open");
  table.sort(5, Qt::AscendingOrder);  // by memory, not by its words
  for (int line = 1; line < table.rowCount(); ++line) {
    const auto memory = [&](int at) { return rows[table.source(at)].layout->needed; };
    CHECK(memory(line - 1) <= memory(line));
  }
}

TEST_CASE("a layout is on the front if no faster one needs less memory", "[gui][model]") {
  test::application();
  LayoutSearch search([] {});
  search.start({kTiny, {}}, "s.toml");
  wait_for(search);
  const std::vector<LayoutRow> rows = layout_rows(search.found(), nullptr);
  int best = 0, on_front = 0;
  for (const LayoutRow& row : rows) {
    bool beaten = false;
    for (const LayoutRow& other : rows) {
      const JudgedLayout &a = *row.layout, &b = *other.layout;
      beaten |= b.step_time < a.step_time && b.needed <= a.needed;
    }
    if (beaten) CHECK_FALSE(row.front);
    on_front += row.front;
    best += row.best_of_family;
  }
  CHECK(on_front > 0);
  std::set<std::string> families;
  for (const LayoutRow& row : rows) families.insert(row.layout->family);
  CHECK(best == static_cast<int>(families.size()));
}

}  // namespace
}  // namespace lockstep::gui
