#include "gui/model/run/lanes.hpp"

#include <map>

#include "tests/catch.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("a lane holds the spans of one rank and stream, in order, without copying them",
          "[gui][model]") {
  Trace trace = test::empty_trace(2);
  using test::kMs;
  trace.spans = {test::span(0, 0, 0 * kMs, 2 * kMs), test::span(0, 1, 2 * kMs, 5 * kMs),
                 test::span(0, 48, 1 * kMs, 3 * kMs), test::span(1, 0, 4 * kMs, 9 * kMs)};
  const Lanes lanes(trace);
  REQUIRE(lanes.all().size() == 3);
  CHECK(lanes.of_rank(0).size() == 2);
  CHECK(lanes.of_rank(1).size() == 1);
  CHECK(lanes.begin() == SimTime{0});
  CHECK(lanes.end() == 9 * kMs);
  const Lane* gather = lanes.find(0, static_cast<int>(Stream::Gather));
  REQUIRE(gather != nullptr);
  CHECK(gather->segments.front().spans().first() == 2);
  CHECK(lanes.look(trace.spans[1]) == Look::Backward);
  CHECK(lanes.find(1, static_cast<int>(Stream::Gather)) == nullptr);
}

TEST_CASE("a rank without spans of its own shows those of the rank that stands for it",
          "[gui][model]") {
  Trace trace = test::empty_trace(3);
  trace.same_as = {0, 0, 2};
  trace.spans = {test::span(0, 0, SimTime{0}, SimTime{5}),
                 test::span(2, 0, SimTime{1}, SimTime{2})};
  const Lanes lanes(trace);
  CHECK(lanes.of_rank(1).data() == lanes.of_rank(0).data());
  CHECK(lanes.of_rank(1).front().rank == 0);
}

TEST_CASE("of a trace from elsewhere, the lane that computes longest stands for the rank",
          "[gui][model]") {
  using test::kMs;
  Trace trace = test::empty_trace(1);
  trace.streams[to_size(Stream::Compute)] = "stream 7";
  const auto first_stream = [&] { return Lanes(trace).main_of_rank(0)->stream; };
  trace.spans = {test::span(0, 0, 1 * kMs, 2 * kMs), test::span(0, 48, 1 * kMs, 3 * kMs),
                 test::span(0, 49, 3 * kMs, 9 * kMs)};
  CHECK(first_stream() == static_cast<int>(Stream::Compute));  // of two gathers and one forward
  trace.spans = {trace.spans[1], trace.spans[2]};
  CHECK(first_stream() == static_cast<int>(Stream::Gather));
}

TEST_CASE("steps have windows of their own, over all ranks", "[gui][model]") {
  Trace trace = test::empty_trace(2);
  trace.spans = {test::span(0, 0, SimTime{0}, SimTime{5}),
                 test::span(1, 0, SimTime{2}, SimTime{8}),
                 {0, OpId{0}, 1, SimTime{10}, SimTime{10}, SimTime{15}}};
  const Lanes lanes(trace);
  REQUIRE(lanes.steps().size() == 2);
  CHECK(lanes.steps()[0].end == SimTime{8});
  CHECK(lanes.steps()[1].begin == SimTime{10});
  CHECK(lanes.find(0, 0)->segments.size() == 2);
}

TEST_CASE("queries of a lane agree with looking at every span", "[gui][model]") {
  for (const int count : {1, 2, 15, 16, 17, 255, 256, 257, 5000}) {
    const Trace trace = test::random_trace(1, count, static_cast<unsigned>(count));
    const Lanes lanes(trace);
    const LaneSegment& segment = lanes.all().front().segments.front();
    const auto spans = segment.spans();
    std::mt19937 random(7);
    bool mixes_agree = true, beginning_agrees = true, ending_agrees = true;
    for (int query = 0; query < 2000; ++query) {
      const std::size_t a = random() % spans.size();
      const std::size_t b = a + 1 + random() % (spans.size() - a);
      // Of more than 32 spans, only whole sixteens count.
      const bool few = b - a <= 32;
      const std::size_t from = few ? a : (a + 15) / 16 * 16, to = few ? b : b / 16 * 16;
      std::map<Look, double> time;
      double sum = 0;
      for (std::size_t i = from; i < to; ++i) {
        const auto own = static_cast<double>((spans[i].end - spans[i].begin).count());
        time[lanes.look(spans[i])] += own;
        sum += own;
      }
      const LookMix mix = segment.mix(a, b);
      const double most = time[mix.most], second = mix.share_of_second > 0 ? time[mix.second] : 0;
      for (const auto& [look, own] : time) {
        mixes_agree = mixes_agree && own <= most && (look == mix.most || own <= second);
      }
      const auto whole = static_cast<double>((spans[to - 1].end - spans[from].begin).count());
      mixes_agree = mixes_agree && mix.share_of_second == Approx(second / (most + second)) &&
                    mix.busy == Approx(sum / whole);

      const SimTime t{static_cast<std::int64_t>(
          random() % static_cast<std::uint64_t>(segment.end().count() + 100))};
      std::size_t first = a;
      while (first < spans.size() && spans[first].begin < t) ++first;
      for (const std::size_t guess : {0UL, 1UL, b - a, spans.size()}) {
        beginning_agrees = beginning_agrees && segment.first_beginning_at(t, a, guess) == first;
      }
      std::size_t ending = 0;
      while (ending < spans.size() && spans[ending].end <= t) ++ending;
      ending_agrees = ending_agrees && segment.first_ending_after(t) == ending;
    }
    INFO("spans: " << count);
    CHECK(mixes_agree);
    CHECK(beginning_agrees);
    CHECK(ending_agrees);
  }
}

}  // namespace
}  // namespace lockstep::gui
