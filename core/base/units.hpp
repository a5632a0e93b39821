// Units: one type per physical dimension. Only operators that mean something exist.
#pragma once

#include <chrono>
#include <cmath>
#include <compare>
#include <cstdint>

namespace lockstep {

template <class Dim, class Rep = double>
struct Quantity {
  Rep v{};
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.v + b.v}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.v - b.v}; }
  constexpr Quantity& operator+=(Quantity b) { return v += b.v, *this; }
  constexpr Quantity& operator-=(Quantity b) { return v -= b.v, *this; }
};

using Bytes = Quantity<struct BytesDim, std::int64_t>;  // exact; a tensor is never 1.5 bytes
using Flops = Quantity<struct FlopsDim>;                // a multiply-add counts as two
using Seconds = Quantity<struct SecondsDim>;            // what a cost model returns
using BytesPerSecond = Quantity<struct BandwidthDim>;   // never bits: the parser converts Gb/s
using FlopsPerSecond = Quantity<struct FlopRateDim>;    // dense peak or measured rate

constexpr Seconds operator/(Bytes n, BytesPerSecond rate) { return {double(n.v) / rate.v}; }
constexpr Seconds operator/(Flops n, FlopsPerSecond rate) { return {n.v / rate.v}; }
constexpr Seconds operator*(double k, Seconds t) { return {k * t.v}; }
constexpr Bytes operator*(std::int64_t k, Bytes n) { return {k * n.v}; }
constexpr Flops operator*(double k, Flops n) { return {k * n.v}; }

/// Integer picoseconds: the clock of every trace. 2^63 ps is 106 days, more than any step.
using SimTime = std::chrono::duration<std::int64_t, std::pico>;

/// 13 days. Times are not longer, so that several of them can be added up.
inline constexpr SimTime kLongestTime{std::int64_t{1} << 60};
/// To the nearest picosecond. What is too long, or not a number, becomes kLongestTime.
inline SimTime rounded(double picoseconds) {
  constexpr auto kLongest = static_cast<double>(kLongestTime.count());
  if (!(picoseconds < kLongest)) return kLongestTime;
  return picoseconds > -kLongest ? SimTime{std::llround(picoseconds)} : -kLongestTime;
}
/// The only place where a duration in seconds is rounded.
inline SimTime to_sim_time(Seconds t) { return rounded(t.v * 1e12); }
/// n × t, but at most kLongestTime; neither is negative.
constexpr SimTime repeated(std::int64_t n, SimTime t) {
  return t.count() > 0 && n > kLongestTime / t ? kLongestTime : n * t;
}
constexpr Seconds to_seconds(SimTime t) { return {double(t.count()) / 1e12}; }

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace lockstep
