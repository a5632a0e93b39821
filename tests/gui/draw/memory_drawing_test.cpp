#include "gui/draw/memory_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

const QRectF kRect(0, 0, 700, 300);

/// A tiny GPT-2, FSDP over two ranks under a pipeline of two, simulated.
RunPtr simulated() {
  const std::string file =
      std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/tiny/gpt2-fsdp2-1f1b2.toml";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const Cancelled never{false};
  Outcome outcome = simulate(text.str(), file, {}, never);
  REQUIRE(outcome.run);
  return outcome.run;
}

TEST_CASE("each column of the curve is as high as its bytes, and the highest is the peak",
          "[gui][draw]") {
  const MemoryModel model = make_memory_model(simulated(), 1);
  REQUIRE_FALSE(model.empty());
  const MemoryFrame frame = memory_frame(model, {}, kRect, {});
  const DisplayList list = draw_memory_curve(model, {}, frame, {});
  std::map<float, double> height;  // of the column that begins there
  for (const Fill& fill : list.fills) height[fill.x] += fill.height;
  double highest = 0;
  for (const auto& [x, h] : height) {
    highest = std::max(highest, h);
    CHECK(h <= frame.plot.height());
  }
  const double bytes = highest / frame.plot.height() * static_cast<double>(frame.top);
  CHECK(std::abs(bytes / static_cast<double>(model.curve.peak) - 1) < 1e-3);
  // The peak's mark stands on it.
  const auto words = std::find_if(list.texts.begin(), list.texts.end(),
                                  [](const Text& t) { return t.text.starts_with("peak "); });
  REQUIRE(words != list.texts.end());
}

TEST_CASE("the arena's picture shows every live byte once, and holes for the rest", "[gui][draw]") {
  const MemoryModel model = make_memory_model(simulated(), 0);
  const SimTime middle = model.begin + (model.end - model.begin) / 2;
  const ArenaPicture picture = arena_picture(model, middle, kRect, {});
  REQUIRE(picture.state.used > 0);
  const DisplayList list = draw_arena(model, picture, {});
  double hatched = 0, solid = 0;
  for (const Fill& fill : list.fills) {
    (fill.ink == Ink::Idle ? hatched : solid) += fill.width;
    CHECK(fill.x >= kRect.left() - 0.01);
    CHECK(fill.x + fill.width <= kRect.right() + 0.01);
  }
  const double bytes_per_pixel =
      static_cast<double>(picture.bytes_per_line()) / picture.rect.width();
  CHECK(hatched * bytes_per_pixel ==
        Approx(static_cast<double>(picture.state.arena)).epsilon(1e-6));
  // Every box but the narrowest leaves a pixel free to its neighbour.
  const double gaps = static_cast<double>(list.fills.size()) * bytes_per_pixel;
  CHECK(solid * bytes_per_pixel <= static_cast<double>(picture.state.used) * (1 + 1e-6));
  CHECK(solid * bytes_per_pixel >= static_cast<double>(picture.state.used) - gaps);
  CHECK(list.outlines.size() >= 1);  // what is freed next
}

TEST_CASE("a point of the arena's picture is the buffer whose bytes lie there", "[gui][draw]") {
  const MemoryModel model = make_memory_model(simulated(), 0);
  const ArenaPicture picture =
      arena_picture(model, model.begin + (model.end - model.begin) / 3, kRect, {});
  for (const BufferLife& life : picture.state.live) {
    const std::int64_t middle = life.offset + life.bytes / 2;
    const std::int64_t line = middle / picture.bytes_per_line();
    const QPointF point(
        picture.rect.x() + (static_cast<double>(middle % picture.bytes_per_line()) + 0.5) /
                               static_cast<double>(picture.bytes_per_line()) * picture.rect.width(),
        picture.rect.y() + (static_cast<double>(line) + 0.4) * picture.line_height);
    const BufferLife* found = picture.at(point);
    REQUIRE(found != nullptr);
    CHECK(found->buffer == life.buffer);
  }
  CHECK(picture.at({-5, -5}) == nullptr);
}

TEST_CASE("another run lies as a line over the same axes, and the capacity where it is near",
          "[gui][draw]") {
  const RunPtr run = simulated();
  MemoryModel model = make_memory_model(run, 0);
  const std::vector<MemoryModel> others = {make_memory_model(run, 2)};
  model.capacity = 2 * model.curve.peak;
  const MemoryFrame near = memory_frame(model, others, kRect, {});
  CHECK(near.top >= model.capacity);
  const DisplayList list = draw_memory_curve(model, others, near, {});
  CHECK(list.polylines.size() == 1);
  CHECK(std::count_if(list.lines.begin(), list.lines.end(),
                      [](const Line& l) { return l.ink == Ink::Fault && l.dashed; }) == 1);
  model.capacity = 1000 * model.curve.peak;
  CHECK(memory_frame(model, others, kRect, {}).top < 2 * model.curve.peak);
}

}  // namespace
}  // namespace lockstep::gui
