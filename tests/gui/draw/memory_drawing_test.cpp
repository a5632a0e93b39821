#include "gui/draw/memory_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/catch.hpp"
#include "tests/gui/simulated.hpp"

namespace lockstep::gui {
namespace {

const QRectF kRect(0, 0, 700, 300);

/// A tiny GPT-2, FSDP over two ranks under a pipeline of two, simulated.
RunPtr simulated() { return test::simulated("tiny/gpt2-fsdp2-1f1b2.toml"); }

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

TEST_CASE("what a process keeps beside the arena lies above it, each term as high as its bytes",
          "[gui][draw]") {
  const std::string text =
      "[model]\npreset = \"gpt2-124m\"\n[training]\nseq_len = 1024\n"
      "local_batch_size = 16\n[cluster]\npreset = \"a100-80\"\n"
      "device.memory_gb = 8\n";
  const Cancelled never{false};
  const RunPtr run = simulate(text, "s.toml", {}, never).run;
  REQUIRE(run);
  const MemoryModel model = make_memory_model(run, 0);
  REQUIRE(model.device.terms.size() >= 2);
  CHECK(model.process() == model.device.figures().process.v);
  const MemoryFrame frame = memory_frame(model, {}, kRect, {});
  CHECK(frame.y_of(model.process()) >= frame.plot.top());
  const DisplayList list = draw_memory_curve(model, {}, frame, {});
  std::int64_t below = model.curve.arena;
  for (const MemoryTerm& term : model.device.terms) below += std::min(term.bytes.v, INT64_C(0));
  for (std::size_t i = 0; i < model.device.terms.size(); ++i) {
    const MemoryTerm& term = model.device.terms[i];
    if (term.bytes.v <= 0) continue;
    INFO(term.name);
    const double bottom = frame.y_of(below), top = frame.y_of(below + term.bytes.v);
    below += term.bytes.v;
    CHECK(std::any_of(list.fills.begin(), list.fills.end(), [&](const Fill& f) {
      return f.ink == Ink::Idle && f.hatch == term_hatch(i) && std::abs(f.y - top) < 0.01 &&
             std::abs(f.height - (bottom - top)) < 0.01 && f.width == float(frame.plot.width());
    }));
    const DisplayList legend = draw_memory_legend(model, model.begin, kRect, {});
    CHECK(std::any_of(legend.texts.begin(), legend.texts.end(),
                      [&](const Text& t) { return t.text.starts_with(term.name); }));
  }
  CHECK(below == model.process());
  // The device has 8 GB; from there on it is red.
  REQUIRE(model.capacity == 8'000'000'000);
  REQUIRE(run->too_large);
  const auto red = std::find_if(list.fills.begin(), list.fills.end(),
                                [](const Fill& f) { return f.ink == Ink::Over; });
  REQUIRE(red != list.fills.end());
  CHECK(red->y + red->height == Approx(frame.y_of(model.capacity)).margin(0.01));
}

TEST_CASE("the curve has the timeline's scale where the timeline shows the step", "[gui][draw]") {
  const MemoryModel model = make_memory_model(simulated(), 0);
  const SimTime length = model.end - model.begin;
  const TimeAxis axis{model.begin + length / 4, model.begin + length / 2, 500};
  const MemoryFrame shared = memory_frame(model, {}, kRect, {}, {axis, 150});
  CHECK(shared.axis == axis);
  CHECK(shared.plot.left() == 150);
  const TimeAxis elsewhere{model.end + length, model.end + 2 * length, 500};
  CHECK(memory_frame(model, {}, kRect, {}, {elsewhere, 150}).axis.begin == model.begin);
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

TEST_CASE("by address, every block is a box of its bytes and its time, and none lies on another",
          "[gui][draw]") {
  const MemoryModel model = make_memory_model(simulated(), 1);
  const MemoryFrame frame = memory_frame(model, {}, kRect, {});
  const DisplayList list = draw_blocks(model, frame, {});
  std::vector<Fill> boxes;
  for (const Fill& fill : list.fills) {
    if (fill.ink != Ink::Background && fill.ink != Ink::Band && fill.ink != Ink::Idle) {
      boxes.push_back(fill);
    }
  }
  REQUIRE(boxes.size() == model.lives.size());
  for (const BufferLife& life : model.lives) {
    const double left = frame.plot.left() + frame.axis.x_of(life.from);
    const double top = frame.y_of(life.offset + life.bytes);
    CHECK(std::any_of(boxes.begin(), boxes.end(), [&](const Fill& box) {
      return std::abs(box.x - left) < 0.01 && std::abs(box.y - top) < 0.01;
    }));
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Fill &a = boxes[i], &b = boxes[j];
      const float x = std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x);
      const float y = std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y);
      CHECK((x <= 0.51F || y <= 0.01F));  // the narrowest are half a pixel wide
    }
  }
}

TEST_CASE("a point of the picture by address is the block that lies there then", "[gui][draw]") {
  const MemoryModel model = make_memory_model(simulated(), 1);
  const MemoryFrame frame = memory_frame(model, {}, kRect, {});
  int found = 0;
  for (const BufferLife& life : model.lives) {
    const double width = frame.axis.x_of(life.until) - frame.axis.x_of(life.from);
    const double height = frame.y_of(life.offset) - frame.y_of(life.offset + life.bytes);
    if (width < 2 || height < 2) continue;
    const BufferLife* at = block_at(model, frame,
                                    {frame.plot.left() + frame.axis.x_of(life.from) + width / 2,
                                     frame.y_of(life.offset + life.bytes / 2)});
    REQUIRE(at != nullptr);
    CHECK(at->buffer == life.buffer);
    ++found;
  }
  CHECK(found > 10);
  CHECK(block_at(model, frame, {-5, -5}) == nullptr);
}

TEST_CASE("a memory snapshot's blocks are told by the line of code that asked for them",
          "[gui][draw]") {
  const Cancelled never{false};
  const RunPtr run =
      load(LOCKSTEP_SOURCE_DIR "/tests/data/memory-snapshot/snapshot-protocol4.pickle", never).run;
  REQUIRE(run);
  const MemoryModel model = make_memory_model(run, 0);
  REQUIRE(model.lives.size() == 2);
  CHECK(model.describe(model.lives[1]) == "forward train.py:12");
  const MemoryFrame frame = memory_frame(model, {}, kRect, {});
  CHECK(frame.top >= std::int64_t{60} << 20);
  CHECK(draw_blocks(model, frame, {}).fills.size() == 2);
  const ArenaPicture then = arena_picture(model, SimTime{25'000'000}, kRect, {});
  CHECK(then.state.used == std::int64_t{32} << 20);
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
