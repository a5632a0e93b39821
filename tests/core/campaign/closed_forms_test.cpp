#include "core/campaign/closed_forms.hpp"

#include <cmath>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

double goodput(double interval, double pause, double recovery, double mean) {
  return renewal_goodput({{interval}, {pause}, {0}, {recovery}, {mean}});
}

TEST_CASE("Young's interval is the root of twice the save times the mean time",
          "[core][campaign]") {
  CHECK(young_interval({2}, {10000}).v == Approx(200));
}

TEST_CASE("Daly's interval is where his time is least", "[core][campaign]") {
  for (const double mean : {500.0, 5000.0, 100000.0}) {
    for (const double save : {1.0, 20.0, 100.0}) {
      INFO("mean time " << mean << " save " << save);
      double best = 0, most = 0;
      for (double interval = 1; interval < 10 * mean; interval *= 1.001) {
        const double g = goodput(interval, save, 60, mean);
        if (g > most) best = interval, most = g;
      }
      CHECK(daly_interval({save}, {mean}).v == Approx(best).epsilon(0.01));
    }
  }
  CHECK(daly_interval({400}, {100}).v == 100);  // a save that hardly ever succeeds
}

TEST_CASE("goodput without failures loses the saves alone", "[core][campaign]") {
  CHECK(goodput(90, 10, 1000, 0) == Approx(0.9));
}

TEST_CASE("goodput of rare failures is that of first order", "[core][campaign]") {
  // Of a mean time M: saves take δ/(τ+δ), half an interval is lost and R waited in each M.
  const double mean = 1e6, interval = 1000, save = 5, recovery = 600;
  const double first = interval / (interval + save) - ((interval + save) / 2 + recovery) / mean;
  CHECK(goodput(interval, save, recovery, mean) == Approx(first).epsilon(1e-5));
}

TEST_CASE("spares are as many as a Poisson number seldom exceeds", "[core][campaign]") {
  CHECK(spares_needed(0, {1000}) == 0);
  // Mean 1: P(N > 3) = 0.0190, P(N > 4) = 0.0037.
  CHECK(spares_needed(1e-3, {1000}) == 4);
  // Mean 0.01: P(N > 0) = 0.00995.
  CHECK(spares_needed(1e-5, {1000}) == 0);
  CHECK(spares_needed(0.6, {1000}) == 657);  // normal: 600 + 2.326 sqrt(600)
}

}  // namespace
}  // namespace lockstep
