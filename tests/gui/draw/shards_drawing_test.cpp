#include "gui/draw/shards_drawing.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

const QRectF kRect(0, 0, 800, 400);

ShardsModel model_of(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const std::string file = std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/" + name;
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const Cancelled never{false};
  Outcome outcome = simulate(text.str(), file, overrides, never);
  REQUIRE(outcome.run);
  return make_shards_model(outcome.run, never);
}

double size_of(const std::vector<Stretch>& stretches) {
  double sum = 0;
  for (const Stretch& s : stretches) sum += s.size();
  return sum;
}

double owned(const ShardsModel& model, StateKind kind) {
  double sum = 0;
  for (const RankStates& states : model.ranks) {
    sum += size_of(states.owned[kind]);
  }
  return sum;
}

TEST_CASE("shards of FSDP cover the model once; replicas of DDP once each", "[gui][draw]") {
  const ShardsModel fsdp = model_of("tiny/gpt2-fsdp3.toml");
  for (StateKind kind : {StateKind::Parameters, StateKind::Gradients, StateKind::Optimizer}) {
    CHECK(owned(fsdp, kind) == Approx(1).epsilon(1e-6));
  }
  // Ranks that do the same at the same time keep what is theirs: eight eighths of the lesson's.
  const ShardsModel lesson = model_of("lessons/fsdp.toml");
  REQUIRE(lesson.ranks.size() == 8);
  CHECK(lesson.run->steps.front().graph.ranks().size() == 1);
  CHECK(owned(lesson, StateKind::Parameters) == Approx(1).epsilon(1e-6));
  for (std::size_t i = 0; i + 1 < lesson.ranks.size(); ++i) {
    CHECK(lesson.ranks[i].owned[0].front().end ==
          Approx(lesson.ranks[i + 1].owned[0].front().begin));
    const StepGraph& step = lesson.run->steps.front().graph;
    CHECK(lesson.gathered(i, step.begin() + step.makespan() / 2).size() >= 1);
  }
  const ShardsModel ddp = model_of("tiny/gpt2-ddp2.toml");
  CHECK(ddp.ranks.size() == 2);
  for (const RankStates& states : ddp.ranks) {
    CHECK(size_of(states.owned[0]) == Approx(1).epsilon(1e-6));
    CHECK(size_of(states.owned[2]) == Approx(1).epsilon(1e-6));
  }
}

TEST_CASE("ZeRO-1 shares optimizer states alone", "[gui][draw]") {
  const ShardsModel zero = model_of("tiny/gpt2-fsdp3.toml", {"parallelism.zero_stage=1"});
  for (const RankStates& states : zero.ranks) {
    CHECK(size_of(states.owned[0]) == Approx(1).epsilon(1e-6));
    CHECK(size_of(states.owned[2]) < 0.4);
  }
}

TEST_CASE("what is drawn as owned is as wide as it is large", "[gui][draw]") {
  const ShardsModel model = model_of("tiny/gpt2-fsdp3.toml");
  const ShardsFrame frame = shards_frame(model, kRect, {});
  const DisplayList list = draw_shards(model, frame, SimTime{-1}, {});
  const Ink ink = memory_ink(static_cast<int>(BufferKind::Optimizer));
  for (std::size_t i = 0; i < model.ranks.size(); ++i) {
    const QRectF& bar = frame.ranks[i].bars[2];
    double width = 0;
    for (const Fill& fill : list.fills) {
      if (fill.ink == ink &&
          bar.contains(QPointF(fill.x + fill.width / 2, fill.y + fill.height / 2))) {
        width += fill.width;
      }
    }
    CHECK(width / bar.width() == Approx(size_of(model.ranks[i].owned[2])).epsilon(1e-3));
  }
}

TEST_CASE("a unit is gathered while its layer computes, and gone afterwards", "[gui][draw]") {
  const ShardsModel model = model_of("tiny/gpt2-fsdp3.toml");
  const StepGraph& step = model.run->steps.front().graph;
  std::size_t most = 0;
  for (int percent = 1; percent < 100; ++percent) {
    most = std::max(most, model.gathered(0, step.begin() + step.makespan() * percent / 100).size());
  }
  CHECK(most >= 2);  // the one in use and the one ahead
  CHECK(most < model.ranks[0].units.size());
  CHECK(model.gathered(0, step.end()).empty());
}

TEST_CASE("a rank without room for its name has its number", "[gui][draw]") {
  const ShardsModel model = model_of("lessons/fsdp.toml");
  const auto words = [&](double height) {
    const ShardsFrame frame = shards_frame(model, QRectF(0, 0, 300, height), {});
    return print(draw_shards(model, frame, SimTime{0}, {}));
  };
  CHECK_THAT(words(800), ContainsSubstring("\"rank 7 (dp_shard7)\""));
  CHECK_THAT(words(40), ContainsSubstring("\"7\"") && !ContainsSubstring("rank 7"));
}

TEST_CASE("boxes of ranks do not overlap and stay inside", "[gui][draw]") {
  const ShardsModel model = model_of("tiny/gpt2-fsdp2-1f1b2.toml");
  const ShardsFrame frame = shards_frame(model, kRect, {});
  for (std::size_t i = 0; i < frame.ranks.size(); ++i) {
    CHECK(kRect.contains(frame.ranks[i].box));
    for (std::size_t j = i + 1; j < frame.ranks.size(); ++j) {
      CHECK_FALSE(frame.ranks[i].box.intersects(frame.ranks[j].box));
    }
  }
}

}  // namespace
}  // namespace lockstep::gui
