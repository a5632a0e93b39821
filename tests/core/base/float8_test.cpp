#include "core/base/float8.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

/// What a code stands for by the formats' definition: (-1)^s 2^(e - bias) 1.m, and without exponent
/// 2^(1 - bias) 0.m.
double defined_value(int code, int mantissa) {
  const int exponent_bits = 7 - mantissa, bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = code >= 128 ? -1 : 1;
  const int e = code % 128 / (1 << mantissa), m = code % (1 << mantissa);
  const double fraction = static_cast<double>(m) / (1 << mantissa);
  if (mantissa == kE5M2 && e == 31) return m == 0 ? sign * INFINITY : NAN;
  if (mantissa == kE4M3 && code % 128 == 127) return NAN;
  return sign * (e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, e - bias));
}

/// The finite values that are not negative, in ascending order, which is that of their codes.
std::vector<double> values_of(int mantissa) {
  std::vector<double> values;
  for (int code = 0; code < 128; ++code) {
    const double value = defined_value(code, mantissa);
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

/// The nearest of all codes, found by looking at them all; of two, the even one.
int nearest_code(double value, const std::vector<double>& values) {
  const double size = std::abs(value);
  int best = 0;
  for (int code = 1; code < static_cast<int>(values.size()); ++code) {
    const double here = std::abs(values[static_cast<std::size_t>(code)] - size);
    const double there = std::abs(values[static_cast<std::size_t>(best)] - size);
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return best + (std::signbit(value) ? 128 : 0);
}

template <class T>
void check_everywhere(int mantissa) {
  INFO("mantissa of " << mantissa << " bits, " << sizeof(T) << " bytes");
  const std::vector<double> values = values_of(mantissa);
  const auto check = [&](double value) {
    const auto given = static_cast<T>(value);
    if (static_cast<double>(given) != value) return;  // T has no such number
    INFO(value);
    CHECK(float8_code(given, mantissa) == nearest_code(value, values));
    CHECK(float8_code(-given, mantissa) == nearest_code(-value, values));
  };
  const double least = std::numeric_limits<T>::epsilon();
  for (std::size_t i = 0; i < values.size(); ++i) {
    check(values[i]);
    const double next = i + 1 < values.size() ? values[i + 1] : 2 * values[i];
    const double middle = (values[i] + next) / 2;
    for (const double near : {middle, middle * (1 - least), middle * (1 + 2 * least)}) check(near);
  }
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponents(-26, 20), fractions(1, 2);
  for (int i = 0; i < 20'000; ++i) {
    check(static_cast<T>(std::ldexp(fractions(random), static_cast<int>(exponents(random)))));
  }
}

}  // namespace

TEST_CASE("all 256 codes of both formats stand for what their definition says", "[core]") {
  for (const int mantissa : {kE4M3, kE5M2}) {
    for (int code = 0; code < 256; ++code) {
      INFO(mantissa << " bits, code " << code);
      const double value = float8_value(static_cast<std::uint8_t>(code), mantissa);
      const double defined = defined_value(code, mantissa);
      if (std::isnan(defined)) {
        CHECK(std::isnan(value));
      } else {
        CHECK(value == defined);
        CHECK(std::signbit(value) == std::signbit(defined));
      }
    }
  }
  CHECK(float8_value(float8_largest(kE4M3), kE4M3) == 448);
  CHECK(float8_value(float8_largest(kE5M2), kE5M2) == 57344);
  CHECK(float8_value(1, kE4M3) == std::ldexp(1.0, -9));
  CHECK(float8_value(1, kE5M2) == std::ldexp(1.0, -16));
}

TEST_CASE("a number becomes the nearest code, and of two the even one", "[core]") {
  for (const int mantissa : {kE4M3, kE5M2}) {
    check_everywhere<float>(mantissa);
    check_everywhere<double>(mantissa);
  }
  // A double is rounded once: a float32 between would make a tie of what lies above one.
  CHECK(float8_code(1.0625 + 1e-12, kE4M3) == float8_code(1.125, kE4M3));
  CHECK(float8_code(1.0625, kE4M3) == float8_code(1.0, kE4M3));
}

TEST_CASE("what is too large becomes the largest number, and what is none becomes NaN", "[core]") {
  for (const int mantissa : {kE4M3, kE5M2}) {
    const std::uint8_t largest = float8_largest(mantissa);
    for (const double value : {465.0, 61441.0, 1e30, 1e300}) {
      if (value < float8_value(largest, mantissa)) continue;
      CHECK(float8_code(value, mantissa) == largest);
      CHECK(float8_code(-value, mantissa) == (largest | 0x80));
    }
    CHECK(float8_code(std::numeric_limits<float>::max(), mantissa) == largest);
    for (const float value : {INFINITY, -INFINITY, NAN, -NAN}) {
      CHECK(std::isnan(float8_value(float8_code(value, mantissa), mantissa)));
      CHECK(std::isnan(float8_value(float8_code<double>(value, mantissa), mantissa)));
    }
  }
}

TEST_CASE("a scale is the least power of two at which the largest value of a block has a code",
          "[core]") {
  for (const int mantissa : {kE4M3, kE5M2}) {
    const double most = float8_value(float8_largest(mantissa), mantissa);
    std::mt19937 random(5);
    std::uniform_real_distribution<double> exponents(-100, 100), fractions(1, 2);
    for (int i = 0; i < 10'000; ++i) {
      double largest = std::ldexp(fractions(random), static_cast<int>(exponents(random)));
      if (i % 10 == 0) largest = std::ldexp(1.75, i / 10 % 200 - 100);  // as large as it may be
      const int e = float8_exponent(largest, mantissa);
      INFO(largest);
      CHECK(largest <= std::ldexp(most, e));
      CHECK(largest > std::ldexp(most, e - 1));
      const auto single = static_cast<float>(largest);
      CHECK(float8_exponent(single, mantissa) ==
            float8_exponent(static_cast<double>(single), mantissa));
    }
    CHECK(float8_exponent(0.0, mantissa) == -126);
    CHECK(float8_exponent(1e-300, mantissa) == -126);
    CHECK(float8_exponent(1e300, mantissa) == 126);
    CHECK(float8_exponent(std::numeric_limits<float>::denorm_min(), mantissa) == -126);
  }
  for (int e = -126; e <= 127; ++e) {
    CHECK(power_of_two<float>(e) == std::ldexp(1.0F, e));
    CHECK(power_of_two<double>(e) == std::ldexp(1.0, e));
  }
}

}  // namespace lockstep
