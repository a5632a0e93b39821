#include "gui/model/timeline/timeline_layout.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

/// Two stages of two ranks each; every rank computes and gathers.
RunPtr two_by_two() {
  Trace trace = test::empty_trace(4);
  for (Rank rank = 0; rank < 4; ++rank) {
    trace.rank_labels[rank] = "rank " + std::to_string(rank) + " (pp" + std::to_string(rank / 2) +
                              " dp_shard" + std::to_string(rank % 2) + ")";
    trace.spans.push_back(test::span(rank, 0, SimTime{0}, SimTime{5}));
    trace.spans.push_back(test::span(rank, 48, SimTime{0}, SimTime{5}));
  }
  return make_run("two by two", std::move(trace));
}

std::string keys(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) text += (text.empty() ? "" : ", ") + row.key;
  return text;
}

std::string keys(const RunView& run, const LayoutChoice& choice) {
  return keys(lay_out(run, choice, {}).rows);
}

TEST_CASE("labels say where a rank stands in the mesh", "[gui][model]") {
  CHECK(coordinates("rank 3 (pp1 dp_shard12)") ==
        std::vector<Coordinate>{{"pp", 1}, {"dp_shard", 12}});
  CHECK(coordinates("rank 3").empty());
  CHECK(coordinates("host (odd) 7").empty());
  CHECK(coordinate("rank 3 (pp1 tp0)", "tp") == 0);
  CHECK(coordinate("rank 3 (pp1 tp0)", "dp") == -1);
}

TEST_CASE("a dragged rank falls into the nearest gap of its stage", "[gui][model]") {
  const RunPtr run = two_by_two();
  const TimelineLayout layout = lay_out(*run, {}, {10, 20, 5});
  // pp0 at 0, rank 0 at 10 with gather at 30, rank 1 at 35 to 60; pp1 at 60, rank 2 at 70, …
  const Row& rank0 = layout.rows[1];
  REQUIRE(rank0.key == "rank 0");
  CHECK(gap_near(*run, layout, rank0, 12) == Gap{"rank 0", 10});
  CHECK(gap_near(*run, layout, rank0, 40) == Gap{"rank 1", 35});
  CHECK(gap_near(*run, layout, rank0, 50) == Gap{"", 60});
  CHECK(gap_near(*run, layout, rank0, 500) == Gap{"", 60});  // never into another stage
  const LayoutChoice last = dropped(*run, {}, rank0, "");
  CHECK(last.order == std::vector<Rank>{1, 0, 2, 3});
  CHECK(dropped(*run, last, rank0, "rank 1").order == std::vector<Rank>{0, 1, 2, 3});
  CHECK(dropped(*run, {}, rank0, "rank 0").order == std::vector<Rank>{0, 1, 2, 3});
}

TEST_CASE("pinned rows are dragged among themselves", "[gui][model]") {
  const RunPtr run = two_by_two();
  LayoutChoice choice;
  choice.pinned = {"rank 0", "rank 2/gather", "rank 3"};
  const TimelineLayout layout = lay_out(*run, choice, {10, 20, 5});
  CHECK(gap_near(*run, layout, layout.pinned[0], 26) == Gap{"rank 3", 25});
  CHECK(dropped(*run, choice, layout.pinned[0], "rank 3").pinned ==
        std::vector<RowKey>{"rank 2/gather", "rank 0", "rank 3"});
  CHECK(dropped(*run, choice, layout.pinned[0], "").pinned ==
        std::vector<RowKey>{"rank 2/gather", "rank 3", "rank 0"});
  CHECK(dropped(*run, choice, layout.pinned[0], "rank 0") == choice);
}

TEST_CASE("every row can be revealed, whatever hides it", "[gui][model]") {
  const RunPtr run = two_by_two();
  CHECK(all_rows(*run).size() == 8);
  LayoutChoice hidden;
  hidden.folded = {"pp0", "pp1", "rank 1", "rank 3"};
  hidden.filter = "no such row";
  for (const RowKey& key : all_rows(*run)) {
    const TimelineLayout layout = lay_out(*run, revealing(*run, hidden, key), {});
    INFO(key);
    CHECK(std::any_of(layout.rows.begin(), layout.rows.end(),
                      [&](const Row& row) { return row.key == key; }));
  }
}

TEST_CASE("rows are grouped by stage, a rank's streams under it", "[gui][model]") {
  const RunPtr run = two_by_two();
  CHECK(keys(*run, {}) ==
        "pp0, rank 0, rank 0/gather, rank 1, rank 1/gather, "
        "pp1, rank 2, rank 2/gather, rank 3, rank 3/gather");
  const TimelineLayout layout = lay_out(*run, {}, {10, 20, 5});
  CHECK(layout.height == 2 * 10 + 4 * 20 + 4 * 5);
  for (std::size_t i = 1; i < layout.rows.size(); ++i) {
    CHECK(layout.rows[i].y == layout.rows[i - 1].y + layout.rows[i - 1].height);
  }
  CHECK(row_at(layout.rows, 10)->key == "rank 0");
  CHECK(row_at(layout.rows, 29.5)->key == "rank 0");
  CHECK(row_at(layout.rows, layout.height) == nullptr);
  CHECK(row_at(layout.rows, -1) == nullptr);
}

TEST_CASE("folding hides what is inside, and unfolding brings it back", "[gui][model]") {
  const RunPtr run = two_by_two();
  LayoutChoice choice = toggled_fold({}, "pp0");
  choice = toggled_fold(choice, "rank 2");
  CHECK(keys(*run, choice) == "pp0, pp1, rank 2, rank 3, rank 3/gather");
  CHECK(lay_out(*run, choice, {}).rows.front().lane != nullptr);
  choice = toggled_fold(toggled_fold(choice, "pp0"), "rank 2");
  CHECK(choice == LayoutChoice{});
}

TEST_CASE("a filter shows matching ranks whole and matching streams alone", "[gui][model]") {
  const RunPtr run = two_by_two();
  LayoutChoice choice;
  choice.filter = "PP1 DP_SHARD0";
  CHECK(keys(*run, choice) == "rank 2, rank 2/gather");
  choice.filter = "gather";
  CHECK(keys(*run, choice) ==
        "rank 0, rank 0/gather, rank 1, rank 1/gather, rank 2, rank 2/gather, rank 3, "
        "rank 3/gather");
  choice.filter = "no such row";
  CHECK(keys(*run, choice).empty());
}

TEST_CASE("pinned rows stand above the others in the order they were pinned", "[gui][model]") {
  const RunPtr run = two_by_two();
  LayoutChoice choice = toggled_pin(toggled_pin({}, "rank 3/gather"), "rank 1");
  choice = toggled_pin(choice, "rank 99");  // of an earlier run
  const TimelineLayout layout = lay_out(*run, choice, {10, 20, 5});
  CHECK(keys(layout.pinned) == "rank 3/gather, rank 1");
  CHECK(layout.pinned_height == 25);
  CHECK(layout.rows.size() == 10);
}

TEST_CASE("ranks move within their stage", "[gui][model]") {
  const RunPtr run = two_by_two();
  LayoutChoice choice = moved(*run, {}, 3, -1);
  CHECK(choice.order == std::vector<Rank>{0, 1, 3, 2});
  choice = moved(*run, choice, 3, -1);  // already first
  CHECK(choice.order == std::vector<Rank>{0, 1, 3, 2});
  choice = moved(*run, choice, 0, +1);
  CHECK(choice.order == std::vector<Rank>{1, 0, 3, 2});
}

TEST_CASE("ranks that do the same as another are counted, and shown on request", "[gui][model]") {
  Trace trace = test::empty_trace(4);
  trace.same_as = {0, 0, 0, 3};
  trace.spans = {test::span(0, 0, SimTime{0}, SimTime{5}),
                 test::span(3, 0, SimTime{0}, SimTime{5})};
  const RunPtr run = make_run("same", std::move(trace));
  LayoutChoice choice;
  const TimelineLayout layout = lay_out(*run, choice, {});
  CHECK(keys(layout.rows) == "rank 0, rank 3");
  CHECK(layout.hidden_copies == 2);
  CHECK_THAT(layout.rows[0].label, ContainsSubstring("×3"));
  choice.identical_ranks = true;
  CHECK(keys(*run, choice) == "rank 0, rank 1, rank 2, rank 3");
}

}  // namespace
}  // namespace lockstep::gui
