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

double owned(const ShardsModel& model, StateBar kind) {
  double sum = 0;
  for (const RankStates& states : model.ranks) {
    sum += size_of(states.owned[kind]);
  }
  return sum;
}

TEST_CASE("shards of FSDP cover the model once; replicas of DDP once each", "[gui][draw]") {
  const ShardsModel fsdp = model_of("tiny/gpt2-fsdp3.toml");
  for (StateBar kind : {StateBar::Parameters, StateBar::Gradients, StateBar::Optimizer}) {
    CHECK(owned(fsdp, kind) == Approx(1).epsilon(1e-6));
  }
  // Ranks that do the same at the same time keep what is theirs: eight eighths of the lesson's.
  const ShardsModel lesson = model_of("lessons/fsdp.toml");
  REQUIRE(lesson.ranks.size() == 8);
  CHECK(lesson.run->steps.front().graph.ranks().size() == 1);
  CHECK(owned(lesson, StateBar::Parameters) == Approx(1).epsilon(1e-6));
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

/// The width of what is filled with an ink inside a bar.
double filled(const DisplayList& list, const QRectF& bar, Ink ink) {
  double width = 0;
  for (const Fill& fill : list.fills) {
    const QPointF center(fill.x + fill.width / 2, fill.y + fill.height / 2);
    if (fill.ink == ink && fill.height > 2 && bar.contains(center)) width += fill.width;
  }
  return width;
}

TEST_CASE("each rank's part of the batch is where it belongs, and is done as the program says",
          "[gui][draw]") {
  // Four replicas with two microbatches of one sequence each.
  const ShardsModel model = model_of(
      "tiny/gpt2-ddp2.toml", {"parallelism.data_parallel_replicate_degree=4",
                              "training.local_batch_size=1", "training.global_batch_size=8"});
  REQUIRE(model.ranks.size() == 4);
  const ShardsFrame frame = shards_frame(model, QRectF(0, 0, 800, 600), {});
  const StepGraph& step = model.run->steps.front().graph;
  for (int percent = 0; percent <= 100; percent += 4) {
    const SimTime t = step.begin() + step.makespan() * percent / 100;
    const DisplayList list = draw_shards(model, frame, t, {});
    for (std::size_t i = 0; i < model.ranks.size(); ++i) {
      INFO(percent << " % rank " << i);
      const QRectF& bar = frame.ranks[i].batch;
      CHECK(model.ranks[i].batch.begin == Approx(static_cast<double>(i) / 4));
      const QRectF own(bar.x() + bar.width() * static_cast<double>(i) / 4, bar.y(), bar.width() / 4,
                       bar.height());
      double forward = 0, backward = 0;
      for (const MicrobatchProgress& m : model.flow(i).microbatches(t)) {
        forward += m.forward / 2;
        backward += m.backward / 2;
      }
      CHECK(model.flow(i).microbatches(t).size() == 2);
      for (const auto& [look, part] :
           {std::pair{Look::Forward, forward}, std::pair{Look::Backward, backward}}) {
        CHECK(filled(list, own, ink_of(look)) == Approx(part * own.width()).margin(0.01));
        CHECK(filled(list, bar, ink_of(look)) == Approx(part * own.width()).margin(0.01));
      }
    }
  }
}

TEST_CASE("gradients are whole where they are summed, and only a shard of them stays",
          "[gui][draw]") {
  const ShardsModel model = model_of("tiny/gpt2-fsdp3.toml");
  const ShardsFrame frame = shards_frame(model, QRectF(0, 0, 800, 600), {});
  const StepGraph& step = model.run->steps.front().graph;
  const Ink ink = memory_ink(static_cast<int>(BufferKind::Grad));
  for (std::size_t i = 0; i < model.ranks.size(); ++i) {
    const QRectF& bar = frame.ranks[i].bars[1];
    CHECK(filled(draw_shards(model, frame, step.begin(), {}), bar, ink) == 0);
    const double end = filled(draw_shards(model, frame, step.end(), {}), bar, ink);
    CHECK(end / bar.width() == Approx(1.0 / 3).margin(0.01));
    double most = 0;
    for (int percent = 0; percent < 100; ++percent) {
      const SimTime t = step.begin() + step.makespan() * percent / 100;
      most = std::max(most, filled(draw_shards(model, frame, t, {}), bar, ink));
    }
    CHECK(most > 1.2 * end);  // a block's whole gradient, before it is scattered
  }
}

TEST_CASE("partial sums travel between the ranks that divide a layer", "[gui][draw]") {
  const ShardsModel model = model_of("tensor-parallel/tiny-gpt2-tp2.toml");
  const StepGraph& step = model.run->steps.front().graph;
  int sums = 0;
  for (SpanIndex i = 0; i < step.size(); ++i) {
    const Op& op = step.program()->role_of(step[i].rank).op(step[i].op);
    if (op.kind != OpKind::AllReduce || op.stream != Stream::Layer) continue;
    const SimTime t = step[i].active + (step[i].end - step[i].active) / 2;
    for (std::size_t r = 0; r < model.ranks.size(); ++r) {
      const auto moving = model.moving(r, in_flight(step, t), t, {});
      REQUIRE(moving);
      CHECK_THAT(moving->words,
                 ContainsSubstring("partial sums of 2 ranks") && !ContainsSubstring("replicated"));
      CHECK(moving->done == Approx(0.5).epsilon(1e-3));
      CHECK(moving->look == Look::AllReduce);
      ++sums;
    }
  }
  CHECK(sums > 0);
  CHECK_FALSE(model.moving(0, {}, step.begin(), {}));
}

TEST_CASE("a legend that is too long for one line goes on in the next", "[gui][draw]") {
  const ShardsModel model = model_of("tiny/gpt2-fsdp2-1f1b2.toml");
  const TextSize text{7, 16, {}};
  const QRectF rect(8, 4, 300, 16);
  const DisplayList legend = draw_shards_legend(model, rect, text);
  for (const Text& words : legend.texts) {
    CHECK(words.rect.x() + text.width_of(words.text) <= rect.right());
  }
  CHECK(legend.texts.back().rect.top() > rect.top());
}

}  // namespace
}  // namespace lockstep::gui
