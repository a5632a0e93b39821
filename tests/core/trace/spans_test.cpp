#include "core/trace/spans.hpp"

#include <random>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

/// Spans of `steps` steps and `ranks` ranks, up to `most` each, as a plain list.
std::vector<Span> random_spans(unsigned seed, int steps, int ranks, int most) {
  std::mt19937 random(seed);
  std::vector<Span> spans;
  for (int step = 0; step < steps; ++step) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      for (auto left = random() % to_size(most + 1); left > 0; --left) {
        const auto t = static_cast<std::int64_t>(random());
        spans.push_back({rank, OpId{static_cast<std::int32_t>(random() % 1000)}, 3 * step,
                         SimTime{t - (random() % 4 == 0 ? 1 : 0)}, SimTime{t}, SimTime{2 * t + 5}});
      }
    }
  }
  return spans;
}

TEST_CASE("a list of spans reads as the spans that it was made of", "[core][trace]") {
  for (const auto& [steps, ranks, most] :
       {std::array{0, 0, 0}, {1, 1, 1}, {1, 1, 1000}, {200, 3, 1}, {7, 40, 90}, {2, 500, 3}}) {
    CAPTURE(steps, ranks, most);
    const std::vector<Span> plain = random_spans(7, steps, ranks, most);
    const Spans spans(plain);
    REQUIRE(spans.size() == plain.size());
    CHECK(std::vector<Span>(spans.begin(), spans.end()) == plain);
    for (std::size_t i = 0; i < plain.size(); ++i) REQUIRE(spans[i] == plain[i]);
    Spans other;
    for (const Span& span : plain) other.push_back(span);
    CHECK(other == spans);
    if (plain.empty()) continue;
    CHECK(spans.front() == plain.front());
    CHECK(spans.back() == plain.back());
    other.push_back(plain.back());
    CHECK_FALSE(other == spans);
  }
}

TEST_CASE("runs are the spans of one rank in one step, and found by both", "[core][trace]") {
  const std::vector<Span> plain = random_spans(11, 9, 13, 70);
  const Spans spans(plain);
  std::size_t next = 0;
  for (const Spans::Run& run : spans.runs()) {
    CHECK(run.first == next);
    REQUIRE(run.last > run.first);
    next = run.last;
    for (const Span& span : spans.range(run)) {
      REQUIRE((span.step == run.step && span.rank == run.rank));
    }
    if (run.last < plain.size()) {
      CHECK((plain[run.last].step != run.step || plain[run.last].rank != run.rank));
    }
  }
  CHECK(next == plain.size());
  for (const std::int32_t step : {-1, 0, 1, 3, 24, 27}) {
    const auto is_of = [&](const Span& span) { return span.step == step; };
    const SpanRange range = spans.range(spans.of_step(step));
    CHECK(range.size() == to_size(std::count_if(plain.begin(), plain.end(), is_of)));
    if (!range.empty()) CHECK((is_of(range.front()) && is_of(range.back())));
    for (Rank rank = 0; rank < 14; ++rank) {
      std::vector<Span> expected;
      for (const Span& span : plain) {
        if (is_of(span) && span.rank == rank) expected.push_back(span);
      }
      const SpanRange found = spans.range(step, rank);
      REQUIRE(std::vector<Span>(found.begin(), found.end()) == expected);
      for (std::size_t i = 0; i < found.size(); ++i) REQUIRE(spans[found.first() + i] == found[i]);
    }
  }
}

TEST_CASE("runs that share their ops and take over their times are those that say all themselves",
          "[core][trace]") {
  constexpr std::size_t kOps = 250;
  std::vector<OpId> ops;
  for (std::size_t i = 0; i < kOps; ++i) ops.push_back({static_cast<std::int32_t>((7 * i) % kOps)});
  Spans shared, plain;
  const std::size_t at = shared.add_ops(ops);
  for (const std::int32_t step : {0, 1}) {
    std::vector<Spans::Run> runs;
    Column<ActiveTime> times;
    for (Rank rank = 0; rank < 3; ++rank) {
      const std::size_t count = rank == 1 ? 0 : kOps - to_size(step);
      runs.push_back({step, rank, times.size(), times.size() + count, at});
      for (std::size_t i = 0; i < count; ++i) {
        const SimTime t{1000 * rank + static_cast<std::int64_t>(i)};
        times.push_back({t + SimTime{1}, t + SimTime{2}});
        plain.push_back(
            {rank, ops[i], step, t + SimTime{i % 3 == 0 ? 0 : 1}, t + SimTime{1}, t + SimTime{2}});
      }
    }
    shared.append(std::move(runs), std::move(times),
                  [&](const Spans::Run& run, std::span<SimTime> begins) {
                    const auto known = shared.times(run);
                    for (std::size_t i = 0; i < begins.size(); ++i) {
                      begins[i] = known[i].active - SimTime{i % 3 == 0 ? 1 : 0};
                    }
                  });
  }
  CHECK(shared == plain);
  CHECK(shared.runs().size() == 4);  // rank 1 has none
  CHECK(shared.ops(shared.runs()[0]).data() == shared.ops(shared.runs()[3]).data());
  // What is added to them says its own ops.
  const Span more{2, OpId{3}, 1, SimTime{9000}, SimTime{9000}, SimTime{9001}};
  shared.push_back(more);
  plain.push_back(more);
  CHECK(shared == plain);
  CHECK(shared.ops(shared.runs()[0]).size() == kOps);
}

}  // namespace
}  // namespace lockstep
