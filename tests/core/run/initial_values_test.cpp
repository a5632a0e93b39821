#include "core/run/initial_values.hpp"

#include <cmath>
#include <set>

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("the normal quantile inverts the distribution function in the centre and both tails",
          "[core][run]") {
  // Oracle: erfc of the C library, with P(X <= x) = erfc(-x / sqrt 2) / 2.
  for (const double x : {-8.0, -6.5, -5.2, -3.0, -1.5, -1.0, -0.1, 0.0, 0.3, 1.1, 1.5, 2.0}) {
    const double p = 0.5 * std::erfc(-x / std::sqrt(2.0));
    CHECK(normal_quantile(p) == Approx(x).epsilon(1e-13).margin(1e-15));
  }
  CHECK(normal_quantile(0x1p-54) > -9);
}

TEST_CASE("normal initial values have the given deviation and no correlation between neighbours",
          "[core][run]") {
  const InitialValues values({"w", {1000, 100}, InitKind::Normal, 0.02}, 42);
  const int n = 100000;
  double sum = 0, squares = 0, products = 0, fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = values[i] / 0.02;
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    products += x * values[i + 1] / 0.02;
  }
  // Standard errors: mean 1/sqrt(n), variance sqrt(2/n), fourth moment sqrt(96/n), five of each.
  CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 5 * std::sqrt(2.0 / n));
  CHECK(std::abs(fourth / n - 3) < 5 * std::sqrt(96.0 / n));
  CHECK(std::abs(products / n) < 5 / std::sqrt(n));
}

TEST_CASE("initial values differ by seed and by name and are equal otherwise", "[core][run]") {
  std::set<double> seen;
  for (const char* name : {"blocks.0.w", "blocks.1.w"}) {
    for (const std::uint64_t seed : {1U, 2U}) {
      const Parameter parameter{name, {8}, InitKind::Normal, 1.0};
      for (int i = 0; i < 8; ++i) {
        CHECK(InitialValues(parameter, seed)[i] == InitialValues(parameter, seed)[i]);
        seen.insert(InitialValues(parameter, seed)[i]);
      }
    }
  }
  CHECK(seen.size() == 32);
  CHECK(InitialValues({"b", {4}, InitKind::Zeros, 1.0}, 1)[3] == 0.0);
  CHECK(InitialValues({"g", {4}, InitKind::Ones, 1.0}, 1)[3] == 1.0);
}

}  // namespace lockstep
