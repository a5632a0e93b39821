#include "gui/draw/chart_drawing.hpp"

#include <cmath>
#include <limits>

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

const QRectF kRect(0, 0, 400, 200);

Chart chart(std::vector<QPointF> points) { return {"loss", std::move(points), Ink::Accent, false}; }

TEST_CASE("a chart's curve stays in its rectangle and goes through every point", "[gui][draw]") {
  const DisplayList list = draw_chart(chart({{1, 5}, {2, 3}, {3, 4}}), kRect, {});
  REQUIRE(list.polylines.size() == 1);
  const auto& points = list.polylines[0].points;
  REQUIRE(points.size() == 3);
  CHECK(points[1].y() > points[2].y());  // 3 lies below 4
  CHECK(points[2].y() > points[0].y());
  CHECK(points[1].x() == Approx((points[0].x() + points[2].x()) / 2));
  for (const QPointF& p : points) CHECK(kRect.contains(p));
  CHECK(list.texts.front().text == "loss  4");
}

TEST_CASE("a value that is not finite leaves a hole", "[gui][draw]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const DisplayList list = draw_chart(chart({{1, 1}, {2, 2}, {3, nan}, {4, 3}, {5, 4}}), kRect, {});
  CHECK(list.polylines.size() == 2);
  CHECK(draw_chart(chart({{1, nan}}), kRect, {}).polylines.empty());
  CHECK(draw_chart(chart({}), kRect, {}).polylines.empty());
}

TEST_CASE("a million points cost pixels, and the highest and lowest are among those drawn",
          "[gui][draw]") {
  std::vector<QPointF> points;
  for (int i = 0; i < 1'000'000; ++i) points.emplace_back(i, std::sin(i * 0.37));
  points[700'000].setY(50);
  const DisplayList list = draw_chart(chart(points), kRect, {});
  REQUIRE(list.polylines.size() == 1);
  CHECK(list.polylines[0].points.size() < 4 * 400);
  double highest = 1e9;
  for (const QPointF& p : list.polylines[0].points) highest = std::min(highest, p.y());
  CHECK(highest < 60);  // the lone peak reaches the top of the plot
}

TEST_CASE("equal values make a level line in the middle of a scale", "[gui][draw]") {
  const DisplayList list = draw_chart(chart({{1, 2}, {2, 2}}), kRect, {});
  REQUIRE(list.polylines.size() == 1);
  CHECK(list.polylines[0].points[0].y() == list.polylines[0].points[1].y());
  CHECK(list.lines.size() >= 2);
}

}  // namespace
}  // namespace lockstep::gui
