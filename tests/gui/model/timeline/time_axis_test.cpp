#include "gui/model/timeline/time_axis.hpp"

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

constexpr SimTime kMs{1'000'000'000};

TEST_CASE("time and pixels map to each other", "[gui][model]") {
  const TimeAxis axis{10 * kMs, 20 * kMs, 1000};
  CHECK(axis.x_of(10 * kMs) == 0);
  CHECK(axis.x_of(15 * kMs) == Approx(500));
  for (const double x : {0.0, 1.0, 333.3, 999.0}) {
    CHECK(axis.x_of(axis.time_at(x)) == Approx(x).margin(0.5));
  }
}

TEST_CASE("zooming keeps what is under the mouse where it is", "[gui][model]") {
  TimeAxis axis{0 * kMs, 100 * kMs, 1000};
  for (const double x : {0.0, 250.0, 999.0}) {
    const SimTime under = axis.time_at(x);
    const TimeAxis closer = axis.zoomed(0.3, x, 100 * kMs);
    CHECK(closer.x_of(under) == Approx(x).margin(0.5));
    CHECK(closer.length().count() == Approx(30.0 * kMs.count()));
  }
}

TEST_CASE("zooming stops at a nanosecond and at four times the whole", "[gui][model]") {
  TimeAxis axis{0 * kMs, 100 * kMs, 1000};
  for (int i = 0; i < 200; ++i) axis = axis.zoomed(0.5, 400, 100 * kMs);
  CHECK(axis.length() == TimeAxis::kShortest);
  for (int i = 0; i < 200; ++i) axis = axis.zoomed(2, 400, 100 * kMs);
  CHECK(axis.length() == 400 * kMs);
}

TEST_CASE("a ruler's step is 1, 2 or 5 times a power of ten", "[gui][model]") {
  CHECK(nice_step(SimTime{1}) == SimTime{1});
  CHECK(nice_step(SimTime{3}) == SimTime{5});
  CHECK(nice_step(SimTime{501}) == SimTime{1000});
  CHECK(nice_step(SimTime{1001}) == SimTime{2000});
}

TEST_CASE("ticks have as many decimals as they need to differ", "[gui][model]") {
  CHECK(tick_text(SimTime{0}, kMs) == "0");
  CHECK(tick_text(50 * kMs, 10 * kMs) == "50 ms");
  CHECK(tick_text(1234 * kMs, kMs) == "1.234 s");
  CHECK(tick_text(1234 * kMs + SimTime{5'000'000}, SimTime{5'000'000}) == "1.234005 s");
  CHECK(tick_text(-50 * kMs, 10 * kMs) == "-50 ms");
  CHECK(tick_text(SimTime{1500}, SimTime{500}) == "1.5 ns");
}

}  // namespace
}  // namespace lockstep::gui
