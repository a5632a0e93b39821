#include "gui/model/timeline/span_search.hpp"

#include "gui/model/run/describe.hpp"
#include "gui/model/run/links.hpp"
#include "tests/gui/application.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

using test::kMs;

RunPtr simulated(const std::string& scenario) {
  test::application();
  Session session;
  session.open(test::scenario_path(scenario));
  test::wait_until_idle(session);
  return session.run();
}

std::string name(const RunView& run, std::optional<SpanId> span) {
  if (!span) return "none";
  const Span& s = run.trace.spans[*span];
  return "rank " + std::to_string(s.rank) + " " + label(run.lanes.op(s), run.lanes.look(s));
}

TEST_CASE("a search means the spans with all its words", "[gui][model]") {
  const RunPtr run = simulated("schedules/1f1b-p4-m8.toml");
  CHECK(SpanQuery(*run, "F3").count() == 4);
  CHECK(SpanQuery(*run, "f3 rank2").count() == 1);
  CHECK(SpanQuery(*run, "backward").count() > 32);  // also the sends
  CHECK(SpanQuery(*run, "forward compute").count() == 32);
  CHECK(SpanQuery(*run, "nonsense").count() == 0);
  CHECK(SpanQuery(*run, "  ").count() == 0);
}

TEST_CASE("a search finds kinds by the names that the legend has for them", "[gui][model]") {
  const RunPtr run = simulated("tiny/gpt2-fsdp3.toml");
  const std::size_t gathers = SpanQuery(*run, "all_gather rank1").count();
  CHECK(gathers > 0);
  CHECK(SpanQuery(*run, "all-gather rank1").count() == gathers);
  CHECK(SpanQuery(*run, "reduce-scatter").count() > 0);
}

TEST_CASE("matches follow each other in time, there and back", "[gui][model]") {
  const RunPtr run = simulated("schedules/1f1b-p4-m8.toml");
  const SpanQuery query(*run, "B0");
  std::string there, back;
  std::optional<SpanId> at, last;
  while ((at = query.next(at, true))) {
    there += name(*run, at) + ";";
    last = at;
  }
  CHECK(there == "rank 3 B0;rank 2 B0;rank 1 B0;rank 0 B0;");
  for (; last; last = query.next(last, false)) back += name(*run, last) + ";";
  CHECK(back == "rank 0 B0;rank 1 B0;rank 2 B0;rank 3 B0;");
}

TEST_CASE("neighbours lie on the same lane, over the border of steps", "[gui][model]") {
  Trace trace = test::empty_trace(1);
  trace.spans = {test::span(0, 0, 0 * kMs, 1 * kMs), test::span(0, 1, 1 * kMs, 2 * kMs),
                 test::span(0, 48, 0 * kMs, 1 * kMs)};
  trace.spans.push_back({0, OpId{0}, 1, 5 * kMs, 5 * kMs, 6 * kMs});
  const RunPtr run = make_run("two steps", std::move(trace));
  CHECK(neighbour(*run, 0, +1) == SpanId{1});
  CHECK(neighbour(*run, 1, +1) == SpanId{3});
  CHECK(neighbour(*run, 3, -1) == SpanId{1});
  CHECK_FALSE(neighbour(*run, 0, -1));
  CHECK_FALSE(neighbour(*run, 3, +1));
  CHECK_FALSE(neighbour(*run, 2, +1));
}

TEST_CASE("links lead from what a span waited for to what waits for it", "[gui][model]") {
  const RunPtr run = simulated("schedules/1f1b-p4-m8.toml");
  // F0 of rank 1 came after its message, and its own send comes after it.
  const auto span = SpanQuery(*run, "F0 rank1 compute").next(std::nullopt, true);
  REQUIRE(span);
  std::string text;
  for (const Link& link : links_of(*run, *span)) {
    CHECK((link.from == *span || link.to == *span));
    CHECK(link.kind == Link::Kind::Dependency);
    text += name(*run, link.from) + " -> " + name(*run, link.to) + ";";
  }
  CHECK_THAT(text, ContainsSubstring("rank 1 r0 -> rank 1 F0;"));
  CHECK_THAT(text, ContainsSubstring("rank 1 F0 -> rank 1 S0;"));
  // A message has two ends, on neighbouring ranks.
  const auto recv = SpanQuery(*run, "r0 rank1 recv_forward").next(std::nullopt, true);
  REQUIRE(recv);
  const auto links = links_of(*run, *recv);
  const auto message = std::find_if(links.begin(), links.end(),
                                    [](const Link& l) { return l.kind == Link::Kind::Message; });
  REQUIRE(message != links.end());
  CHECK(name(*run, message->from) == "rank 0 S0");
  CHECK(message->to == *recv);
}

TEST_CASE("spans and bubbles are told in words", "[gui][model]") {
  const RunPtr run = simulated("schedules/1f1b-p4-m8.toml");
  const auto span = SpanQuery(*run, "F3 rank2 compute").next(std::nullopt, true);
  REQUIRE(span);
  CHECK_THAT(summary(*run, *span), ContainsSubstring("F3 · forward of microbatch 3, stage 2"));
  const std::string facts = text_of(facts_of(*run, *span));
  CHECK_THAT(facts, ContainsSubstring("Rank: rank 2 (pp2)"));
  CHECK_THAT(facts, ContainsSubstring("Runs for: 10 s"));
  const auto [step, bubble] = bubble_at(*run, 3, to_sim_time(Seconds{1}));
  REQUIRE(bubble != nullptr);
  CHECK_THAT(summary(*step, *bubble), ContainsSubstring("bubble of rank 3: warm-up"));
  CHECK_THAT(text_of(facts_of(*run, *step, *bubble)), ContainsSubstring("Lasts: 32 s"));
  CHECK(bubble_at(*run, 0, to_sim_time(Seconds{1})).second == nullptr);
}

}  // namespace
}  // namespace lockstep::gui
