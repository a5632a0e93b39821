#include "gui/model/run/summary_model.hpp"

#include "core/format/format.hpp"
#include "tests/catch.hpp"
#include "tests/gui/simulated.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

SummaryPtr summary_of(const std::string& name, const std::vector<std::string>& overrides = {}) {
  return make_summary(test::simulated(name, overrides));
}

const Card& card(const std::vector<Card>& cards, const std::string& title) {
  for (const Card& c : cards) {
    if (c.title == title) return c;
  }
  FAIL("no card " + title);
  return cards.front();
}

TEST_CASE("the cards of a pipeline tell both conventions of its bubble", "[gui][model]") {
  // 1F1B, p = 4, m = 8: every rank computes 8 x 30 of 346 s (the scenario derives the 346).
  const SummaryPtr model = summary_of("schedules/1f1b-p4-m8.toml");
  CHECK(card(model->cards, "Step time").value == "346 s");
  CHECK(card(model->cards, "Bubble").value == "30.6 %");             // 106 / 346
  CHECK(card(model->cards, "Bubble over ideal").value == "44.2 %");  // 106 / 240
  CHECK(model->report.causes.ranks.size() == 4);
}

TEST_CASE("a number that is not known is a dash with its reason", "[gui][model]") {
  Report report;
  report.step_time = {2};
  std::vector<Card> cards = cards_of(report, nullptr);
  for (const char* title : {"Tokens/s", "MFU", "HFU", "Peak memory", "Cost per 10⁹ tokens"}) {
    INFO(title);
    CHECK_FALSE(card(cards, title).known);
    CHECK(card(cards, title).value == "–");
    CHECK_FALSE(card(cards, title).note.empty());
  }
  report.tokens_per_s = 1000;
  Scenario scenario;
  scenario.cluster.device.name = "abacus";
  CHECK(card(cards_of(report, &scenario), "Cost per 10⁹ tokens").note ==
        "dollars_per_hour of abacus is not given");
  report.dollars_per_billion_tokens = 12.5;
  report.model_flops_per_step = {4e12};
  report.mfu = 0.5;
  cards = cards_of(report, &scenario);
  CHECK(card(cards, "Cost per 10⁹ tokens").value == "12.5 $");
  CHECK(card(cards, "MFU").value == "50.0 %");
  report.tokens_per_s = 0;
  report.dollars_per_billion_tokens = 0;
  report.images_per_s = 64;
  cards = cards_of(report, &scenario);
  CHECK(card(cards, "Images/s").value == "64");
  CHECK_THAT(card(cards, "Cost per 10⁹ tokens").note, ContainsSubstring("images"));
}

TEST_CASE("ranks of one make share a row, and every row adds up to the step", "[gui][model]") {
  const SummaryPtr model = summary_of("tiny/gpt2-fsdp2-1f1b2.toml");
  std::size_t ranks = 0;
  for (const PartsRow& row : model->rows) {
    ranks += row.ranks.size();
    CHECK(sum(row.parts).v == Approx(model->report.step_time.v));
  }
  CHECK(ranks == 4);
  CHECK(sum(mean_parts(model->report)).v == Approx(model->report.step_time.v));
}

TEST_CASE("the straggler's row points at the collective where others wait longest for it",
          "[gui][model]") {
  const SummaryPtr model = summary_of(
      "tiny/gpt2-ddp2.toml", {"what_if.straggler_rank=1", "what_if.straggler_slowdown=1.5"});
  CHECK_THAT(straggler_text(*model), ContainsSubstring("Rank 1 comes last to "));
  const Selection place = place_of(*model, 1);
  REQUIRE(place.span);
  CHECK(model->run->trace.spans[*place.span].rank == 1);
  CHECK(place_of(*model, 0) == Selection{std::nullopt, std::nullopt, {0}});  // never last
  const TableContent content = rank_content(model);
  REQUIRE(content.rows == 2);
  CHECK(content.columns[2].key(1) == model->report.causes.ranks[1].caused_wait.v);
  CHECK(content.columns[2].key(1) == Approx(content.columns[3].key(0)));  // what 0 waits
}

TEST_CASE("how old the weights are that each stage reads is said and has a column",
          "[gui][model]") {
  const SummaryPtr model = summary_of("tiny/llama-pipedream3.toml");
  CHECK(staleness_text(*model) ==
        "Forward passes read old weights. Updates that they miss: 2 on rank 0, 1 on rank 1.");
  const TableContent content = rank_content(model);
  CHECK(content.columns[4].title == "Missed updates");
  for (std::size_t rank = 0; rank < 3; ++rank) CHECK(content.columns[4].key(rank) == 2.0 - rank);

  const SummaryPtr drained = summary_of("schedules/1f1b-p4-m8.toml");
  CHECK(staleness_text(*drained).empty());
  CHECK(rank_content(drained).columns[4].title == "Computation");
}

TEST_CASE("ranks are named by ranges, and many of them by their number", "[gui][model]") {
  CHECK(label_of({3}) == "rank 3");
  CHECK(label_of({0, 1, 2, 3}) == "ranks 0–3");
  CHECK(label_of({0, 2, 5, 6}) == "ranks 0, 2, 5–6");
  CHECK(label_of({0, 4, 8, 12, 16, 20}) == "0, 4, 8, 12… (6)");
}

TEST_CASE("a profile's summary has no empty cards, and tells what profiles are asked for",
          "[gui][model]") {
  const Cancelled never{false};
  const RunPtr run = load(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/kineto-fsdp8", never).run;
  REQUIRE(run);
  const SummaryPtr model = make_summary(run);
  for (const Card& c : model->cards) CHECK(c.known);
  CHECK(card(model->cards, "Kernels").note.find(" of the time: ") != std::string::npos);
  const TimeParts parts = mean_parts(model->report);
  CHECK(card(model->cards, "Computation").value ==
        percent_text((parts[0] + parts[1]).v / model->report.step_time.v));
  CHECK(card(model->cards, "Hidden communication").value ==
        percent_text(parts[1].v / (parts[1] + parts[2]).v));
}

TEST_CASE("of a profile in which no device works, no bubble is told", "[gui][model]") {
  const TemporaryFolder folder;
  write_bytes(folder / "host.json",
              R"([{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0,
                   "dur": 1000}])");
  const Cancelled never{false};
  const RunPtr run = load(folder / "host.json", never).run;
  REQUIRE(run);
  const std::vector<Card> cards = make_summary(run)->cards;
  REQUIRE(cards.size() == 2);
  CHECK(card(cards, "Step time").value == "1 ms");
  CHECK_FALSE(card(cards, "Bubble").known);  // it was 100 % of the step, and 0 % over ideal
  CHECK_THAT(card(cards, "Bubble").note, ContainsSubstring("no device"));
}

TEST_CASE("of a memory snapshot the peak alone is told, and memory has a time to be drawn over",
          "[gui][model]") {
  const Cancelled never{false};
  const RunPtr run = load(std::string(LOCKSTEP_SOURCE_DIR) +
                              "/tests/data/memory-snapshot/snapshot-protocol4.pickle",
                          never)
                         .run;
  REQUIRE(run);
  const SummaryPtr model = make_summary(run);
  REQUIRE(model->cards.size() == 1);
  CHECK(model->cards[0].value == "62.91 MB");
  CHECK(to_seconds(run->lanes.end() - run->lanes.begin()).v == Approx(3.00001));
}

}  // namespace
}  // namespace lockstep::gui
