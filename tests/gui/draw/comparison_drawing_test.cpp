#include "gui/draw/comparison_drawing.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

using test::kMs;

/// The sum of the widths of the boxes in a row of the picture.
double width_in(const DisplayList& list, const QRectF& row) {
  double width = 0;
  for (const Fill& f : list.fills) {
    if (std::abs(f.y - row.y()) < 0.01 && std::abs(f.height - row.height()) < 0.01) {
      width += f.width;
    }
  }
  return width;
}

/// Two ranks that compute for `length` from `begin` on.
RunPtr run_of(SimTime begin, SimTime length) {
  Trace trace = test::empty_trace(2);
  for (const Rank rank : {0, 1}) {
    trace.spans.push_back(test::span(rank, 0, begin, begin + length));
  }
  return make_run("run", std::move(trace));
}

ComparisonModel two_steps() {
  ComparisonModel model;
  model.a = run_of(10 * kMs, 4 * kMs);
  model.b = run_of({}, 3 * kMs);
  model.step_a = {4e-3};
  model.step_b = {3e-3};
  model.parts_a[StepCause::Computation] = {2e-3};
  model.parts_a[StepCause::CoolDown] = {2e-3};
  model.parts_b[StepCause::Computation] = {3e-3};
  return model;
}

TEST_CASE("two steps stand on one axis: their bars are as long as their times", "[gui][draw]") {
  const ComparisonModel model = two_steps();
  const TextSize text;
  const QSizeF size(900, 240);
  const DisplayList list = draw_comparison(model, {}, size, text);
  const ComparisonFrame frame = ComparisonFrame::fitting(model, {}, size, text);
  CHECK(frame.a.bar.width() == frame.b.bar.width());
  CHECK(width_in(list, frame.a.bar) == Approx(frame.a.bar.width()).epsilon(1e-5));
  CHECK(width_in(list, frame.b.bar) == Approx(0.75 * frame.b.bar.width()).epsilon(1e-5));
  CHECK(frame.a.bar.bottom() < frame.b.rows.top());
  const std::string picture = print(list);
  CHECK_THAT(picture, ContainsSubstring("\"4 ms\""));
  CHECK_THAT(picture, ContainsSubstring("\"3 ms, -25.0 %\""));
}

TEST_CASE("steps that begin at other times are drawn from one left edge, to scale", "[gui][draw]") {
  const ComparisonModel model = two_steps();
  const QSizeF size(900, 240);
  const ComparisonFrame frame = ComparisonFrame::fitting(model, {}, size, {});
  const DisplayList list = draw_comparison(model, {}, size, {});
  for (const ComparedStep* side : {&frame.a, &frame.b}) {
    const double share = side == &frame.a ? 1 : 0.75;
    int rows = 0;
    for (const Fill& f : list.fills) {
      if (f.stands_for == 0 || !side->rows.contains(QPointF(f.x + 1, f.y + 1))) continue;
      ++rows;
      CHECK(f.x == Approx(side->rows.x()).margin(0.01));
      CHECK(f.width == Approx(share * side->rows.width()).margin(1.5));
    }
    CHECK(rows == 2);
  }
  // The line at the end of a step is where its spans end.
  CHECK(std::count_if(list.lines.begin(), list.lines.end(), [&](const Line& line) {
          const double end = frame.b.rows.x() + 0.75 * frame.b.rows.width();
          return line.ink == Ink::Accent && std::abs(line.from.x() - end) < 0.5;
        }) == 1);
}

TEST_CASE("the span under a point is found in the right run", "[gui][draw]") {
  const ComparisonModel model = two_steps();
  const ComparisonFrame frame = ComparisonFrame::fitting(model, {}, {900, 240}, {});
  const auto in_a = span_at(frame, frame.a.rows.center());
  REQUIRE(in_a);
  CHECK_FALSE(in_a->in_b);
  const auto in_b = span_at(frame, frame.b.rows.topLeft() + QPointF(5, 5));
  REQUIRE(in_b);
  CHECK(in_b->in_b);
  CHECK(in_b->span == 0);
  CHECK_FALSE(span_at(frame, frame.b.rows.topRight() + QPointF(-5, 5)));  // B is over by then
}

TEST_CASE("a part of the time that is looked at closely is as wide as the axis", "[gui][draw]") {
  const ComparisonModel model = two_steps();
  const ComparisonFrame frame = ComparisonFrame::fitting(model, {0, kMs, 2 * kMs}, {900, 240}, {});
  CHECK(frame.axis.begin == kMs);
  CHECK(frame.axis.x_of(2 * kMs) == Approx(frame.a.rows.width()));
}

TEST_CASE("where ranks have no room, those left out are counted", "[gui][draw]") {
  const ComparisonModel model = two_steps();
  const ComparisonFrame low = ComparisonFrame::fitting(model, {}, {900, 100}, {});
  CHECK(low.a.ranks.size() + low.a.left_out == 2);
  CHECK(low.a.left_out > 0);
}

TEST_CASE("runs without steps draw a ruler and no bars", "[gui][draw]") {
  const DisplayList list = draw_comparison({}, {}, {600, 200}, {});
  CHECK(std::none_of(list.fills.begin(), list.fills.end(),
                     [](const Fill& f) { return f.ink == Ink::Idle || f.stands_for > 0; }));
}

}  // namespace
}  // namespace lockstep::gui
