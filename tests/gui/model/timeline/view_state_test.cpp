#include "gui/model/timeline/view_state.hpp"

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

Mark moment(std::int64_t at, std::string words = {}) {
  return {{SimTime{at}, SimTime{at}}, {}, std::move(words)};
}

TEST_CASE("marks stand in order of time; the same place twice is none", "[gui][model]") {
  std::vector<Mark> marks;
  toggle(marks, moment(30));
  toggle(marks, moment(10));
  toggle(marks, {{SimTime{10}, SimTime{20}}, {3}, "F3"});
  REQUIRE(marks.size() == 3);
  CHECK(marks[0] == moment(10));
  CHECK(marks[1].words == "F3");
  toggle(marks, moment(10, "other words"));
  REQUIRE(marks.size() == 2);
  CHECK(marks[0].words == "F3");
}

TEST_CASE("next and previous go from mark to mark, and once around", "[gui][model]") {
  std::vector<Mark> marks;
  CHECK(next_mark(marks, moment(0), true) == nullptr);
  for (const int at : {10, 20, 30}) toggle(marks, moment(at));
  CHECK(*next_mark(marks, moment(10), true) == moment(20));
  CHECK(*next_mark(marks, moment(15), true) == moment(20));
  CHECK(*next_mark(marks, moment(30), true) == moment(10));
  CHECK(*next_mark(marks, moment(30), false) == moment(20));
  CHECK(*next_mark(marks, moment(15), false) == moment(10));
  CHECK(*next_mark(marks, moment(10), false) == moment(30));
}

TEST_CASE("what was arranged comes back from its text", "[gui][model]") {
  ViewState state;
  state.layout.folded = {"pp1", "rank 2"};
  state.layout.pinned = {"rank 3/gather", "rank 0"};
  state.layout.order = {2, 0, 1};
  state.layout.identical_ranks = true;
  const std::int64_t late = 9'007'199'254'740'993;  // 2^53 + 1: no double holds it
  toggle(state.marks, {{SimTime{5}, SimTime{late}}, {0, 2}, "F3 \"quoted\" · größer"});
  toggle(state.marks, moment(7));
  CHECK(parse_view_state(to_json(state)) == state);
}

TEST_CASE("text that is no view state gives the first arrangement", "[gui][model]") {
  for (const char* text : {"", "no JSON", "[1, 2]", "{\"folded\": 7, \"marks\": {}}",
                           "{\"order\": [\"a\", -3], \"marks\": [{\"begin_ps\": 9}, 4]}"}) {
    INFO(text);
    const ViewState state = parse_view_state(text);
    CHECK(state.layout == LayoutChoice{});
    for (const Mark& mark : state.marks) CHECK(mark.range.begin <= mark.range.end);
  }
}

}  // namespace
}  // namespace lockstep::gui
