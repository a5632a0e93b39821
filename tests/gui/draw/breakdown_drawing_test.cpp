#include "gui/draw/breakdown_drawing.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

SummaryPtr simulated() {
  const std::string file =
      std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/tiny/gpt2-fsdp2-1f1b2.toml";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const Cancelled never{false};
  const Outcome outcome = simulate(text.str(), file, {}, never);
  REQUIRE(outcome.run);
  return make_summary(outcome.run);
}

/// The boxes in a row of the picture, from the left.
std::vector<Fill> fills_at(const DisplayList& list, const QRectF& row) {
  std::vector<Fill> found;
  for (const Fill& f : list.fills) {
    if (std::abs(f.y - row.y()) < 0.01 && std::abs(f.height - row.height()) < 0.01) {
      found.push_back(f);
    }
  }
  return found;
}

TEST_CASE("a bar's parts stand side by side, as wide as their times", "[gui][draw]") {
  const TimeParts parts = {Seconds{4}, Seconds{0}, Seconds{2}, Seconds{1}, Seconds{1}};
  const DisplayList list = draw_parts_bar(parts, Seconds{16}, {100, 10, 160, 18}, {7, 16});
  REQUIRE(list.fills.size() == 4);  // what takes no time is not drawn
  const double begin[] = {100, 140, 160, 170}, width[] = {40, 20, 10, 10};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(list.fills[i].x == Approx(begin[i]));
    CHECK(list.fills[i].width == Approx(width[i]));
  }
  CHECK(list.texts.empty());  // "50.0 %" has no room
  const DisplayList wide = draw_parts_bar(parts, Seconds{8}, {0, 0, 800, 18}, {7, 16});
  REQUIRE(wide.texts.size() == 4);
  CHECK(wide.texts[0].text == "50.0 %");
}

TEST_CASE("every rank's bar is as long as its step, and has the parts of its report",
          "[gui][draw]") {
  const SummaryPtr model = simulated();
  const TextSize text;
  const DisplayList list = draw_breakdown(*model, 500, text);
  const BreakdownFrame frame = BreakdownFrame::fitting(*model, 500, text);
  REQUIRE(model->rows.size() >= 2);
  for (std::size_t row = 0; row < model->rows.size(); ++row) {
    const QRectF bar = frame.bar(row);
    double x = bar.x();
    for (const Fill& f : fills_at(list, bar)) {
      CHECK(f.x == Approx(x).margin(0.01));
      x += f.width;
    }
    CHECK(x - bar.x() ==
          Approx(sum(model->rows[row].parts).v / model->longest().v * bar.width()).margin(0.1));
    CHECK(frame.row_at(bar.center()) == row);
  }
  CHECK_FALSE(frame.row_at({10, frame.bubbles_top}));
}

TEST_CASE("the bubbles' bars add up to the bubble fraction", "[gui][draw]") {
  const SummaryPtr model = simulated();
  const DisplayList list = draw_breakdown(*model, 500, {});
  const BreakdownFrame frame = BreakdownFrame::fitting(*model, 500, {});
  double width = 0;
  for (int c = 0; c < kNumBubbleCauses; ++c) {
    for (const Fill& f : fills_at(list, frame.bubble_bar(c))) {
      if (f.ink == Ink::Idle) width += f.width;
    }
  }
  CHECK(width / frame.bubble_bar(0).width() == Approx(model->report.bubble_fraction).margin(1e-4));
}

TEST_CASE("many rows get thinner, and their labels do not lie on each other", "[gui][draw]") {
  SummaryModel model;
  for (Rank r = 0; r < 1000; ++r) {
    model.rows.push_back({{r}, {Seconds{1}, {}, {}, {}, Seconds{0.001 * r}}});
  }
  const TextSize text;
  const BreakdownFrame frame = BreakdownFrame::fitting(model, 400, text);
  CHECK(frame.height < 4000);
  double last = -100;
  int labels = 0;
  for (const Text& t : draw_breakdown(model, 400, text).texts) {
    if (!t.text.starts_with("rank ")) continue;
    CHECK(t.rect.y() - last >= text.line_height);
    last = t.rect.y();
    ++labels;
  }
  CHECK(labels > 100);
}

TEST_CASE("however narrow the picture is, its legend ends above the first rank", "[gui][draw]") {
  const SummaryPtr model = simulated();
  const TextSize text{7, 16, {}};
  for (const double width : {140.0, 200.0, 260.0, 500.0}) {
    INFO(width);
    const BreakdownFrame frame = BreakdownFrame::fitting(*model, width, text);
    const DisplayList legend = draw_parts_legend(frame.legend(), text);
    REQUIRE(legend.texts.size() == kTimePartNames.size());
    for (const Text& name : legend.texts) CHECK(name.rect.bottom() <= frame.bar(0).top());
    for (const Text& words : draw_breakdown(*model, width, text).texts) {
      if (words.rect.x() != 4 || words.bold) continue;  // the names of rows, left of the bars
      CHECK(text.width_of(words.text) <= frame.gutter);
    }
  }
}

}  // namespace
}  // namespace lockstep::gui
