#include "gui/draw/layouts_drawing.hpp"

#include <algorithm>

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

const QRectF kRect(0, 0, 800, 200);

LayoutRow row_of(double milliseconds, std::int64_t mebibytes, bool simulated) {
  JudgedLayout layout;
  layout.name = layout.family = "a";
  layout.step_time = Seconds{milliseconds / 1e3};
  layout.needed = Bytes{mebibytes << 20};
  if (simulated) layout.simulated = LayoutFigures{};
  LayoutRow row;
  row.layout = std::make_shared<const JudgedLayout>(std::move(layout));
  return row;
}

const Text* found(const DisplayList& list, const std::string& begin) {
  const auto text = std::find_if(list.texts.begin(), list.texts.end(),
                                 [&](const Text& t) { return t.text.starts_with(begin); });
  return text == list.texts.end() ? nullptr : &*text;
}

TEST_CASE("what was simulated is in the frame, although an estimate promised far less",
          "[gui][draw]") {
  const std::vector rows = {row_of(46.4, 19, true), row_of(34.2, 30, false), row_of(60, 19, false)};
  const LayoutsFrame f = layouts_frame(rows, Bytes{64 << 20}, kRect, {});
  CHECK(f.to > 0.0464);
  CHECK(f.to < 0.060);
  const QPointF best = f.place(*rows[0].layout);
  CHECK(best.x() < f.plot.right());
  CHECK(f.at(best, rows) == 0);
}

TEST_CASE("a capacity far above all layouts is named and leaves them their height", "[gui][draw]") {
  const std::vector rows = {row_of(40, 10, true), row_of(41, 30, false)};
  for (const std::int64_t mebibytes : {40, 4000}) {
    const Bytes capacity{mebibytes << 20};
    const LayoutsFrame f = layouts_frame(rows, capacity, kRect, {});
    const double apart = f.place(*rows[0].layout).y() - f.place(*rows[1].layout).y();
    CHECK(apart > 0.5 * f.plot.height());
    const DisplayList list = draw_layouts(rows, {}, capacity, f, {});
    const Text* words = found(list, "capacity ");
    REQUIRE(words != nullptr);
    CHECK((words->text.find("far above") != std::string::npos) == (mebibytes == 4000));
    CHECK(words->rect.bottom() <= f.plot.bottom());
    CHECK(std::count_if(list.lines.begin(), list.lines.end(), [](const Line& line) {
            return line.ink == Ink::Fault;
          }) == (mebibytes == 40 ? 1 : 0));
    CHECK(found(list, "10 MB") != nullptr);  // ticks are round numbers of their unit
  }
}

}  // namespace
}  // namespace lockstep::gui
