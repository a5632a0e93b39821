// Float8: the two formats of floating point in 8 bits (Micikevicius et al. 2022, FP8 Formats for
// Deep Learning, arXiv:2209.05433; OCP 8-bit Floating Point Specification), and the scales that
// bring a block of values into their range, as host and GPU compute them.
//
//   mantissa bits   name    exponent, bias   least step   largest value   infinity, NaN
//   3               E4M3    4 bits, 7        2^-9         448             none, 0x7f
//   2               E5M2    5 bits, 15       2^-16        57344           0x7c, 0x7d to 0x7f
//
// A scale is a power of two, so that multiplying by it rounds nothing: what a code stands for is
// the same number in float64, float32 and bfloat16, whatever the order of operations. Transformer
// Engine takes such scales for blocks by default (Float8BlockScaling, MXFP8BlockScaling).
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/base/mix.hpp"

namespace lockstep {

inline constexpr int kE4M3 = 3, kE5M2 = 2;  // formats are known by their bits of mantissa

LOCKSTEP_ANYWHERE constexpr int float8_bias(int mantissa) { return (1 << (6 - mantissa)) - 1; }
/// The code of the largest number; those of its negatives have bit 7, too.
LOCKSTEP_ANYWHERE constexpr std::uint8_t float8_largest(int mantissa) {
  return mantissa == kE4M3 ? 0x7e : 0x7b;
}
inline constexpr std::uint8_t kFloat8NaN = 0x7f;

/// How float32 or float64 lies in memory.
template <class T>
struct FloatBits {
  using Word = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr int kMantissa = sizeof(T) == 8 ? 52 : 23;
  static constexpr int kBias = sizeof(T) == 8 ? 1023 : 127;
  static constexpr Word kSign = Word{1} << (8 * sizeof(T) - 1);
  static constexpr Word kInfinity = Word{2 * kBias + 1} << kMantissa;
};

/// 2^e, for e from -126 to 127.
template <class T>
LOCKSTEP_ANYWHERE constexpr T power_of_two(int e) {
  using B = FloatBits<T>;
  return __builtin_bit_cast(T, static_cast<typename B::Word>(e + B::kBias) << B::kMantissa);
}

/// The code whose value is nearest to `value`, of two the even one. What is larger than the largest
/// number becomes that. Infinities become NaN, as NaN does, so that a step whose gradients overflow
/// can be told from one whose gradients are large.
template <class T>
LOCKSTEP_ANYWHERE constexpr std::uint8_t float8_code(T value, int mantissa) {
  using B = FloatBits<T>;
  using Word = typename B::Word;
  const Word bits = __builtin_bit_cast(Word, value);
  const auto sign = static_cast<std::uint8_t>((bits & B::kSign) != 0 ? 0x80 : 0);
  const Word magnitude = bits & ~B::kSign;
  if (magnitude >= B::kInfinity) return sign | kFloat8NaN;
  const int bias = float8_bias(mantissa);
  const T least_normal = power_of_two<T>(1 - bias);
  const T size = __builtin_bit_cast(T, magnitude);
  if (size < least_normal) {
    // Steps of equal size: adding a number whose last digit is 1 rounds to whole ones.
    constexpr T kWhole = sizeof(T) == 8 ? T(4503599627370496) : T(8388608);
    const T steps = size * power_of_two<T>(bias - 1 + mantissa);
    return static_cast<std::uint8_t>(sign | static_cast<std::uint8_t>(steps + kWhole - kWhole));
  }
  const int dropped = B::kMantissa - mantissa;
  const Word last = (magnitude >> dropped) & 1;
  const Word rounded = (magnitude + (Word{1} << (dropped - 1)) - 1 + last) >> dropped;
  const Word code = rounded - (static_cast<Word>(B::kBias - bias) << mantissa);
  const Word largest = float8_largest(mantissa);
  return static_cast<std::uint8_t>(sign |
                                   static_cast<std::uint8_t>(code < largest ? code : largest));
}

/// What a code stands for; every such number is one of float32, too.
LOCKSTEP_ANYWHERE constexpr float float8_value(std::uint8_t code, int mantissa) {
  using B = FloatBits<float>;
  const int magnitude = code & 0x7f, bias = float8_bias(mantissa);
  const int exponent = magnitude >> mantissa, digits = magnitude & ((1 << mantissa) - 1);
  float value = 0;
  if (magnitude > float8_largest(mantissa)) {
    const bool infinite = mantissa == kE5M2 && digits == 0;
    value = __builtin_bit_cast(float, B::kInfinity | (infinite ? 0U : 1U << 22));
  } else if (exponent == 0) {
    value = static_cast<float>(digits) * power_of_two<float>(1 - bias - mantissa);
  } else {
    value = __builtin_bit_cast(float, static_cast<std::uint32_t>(exponent - bias + B::kBias) << 23 |
                                          static_cast<std::uint32_t>(digits) << (23 - mantissa));
  }
  return (code & 0x80) != 0 ? -value : value;
}

/// The exponent of the scale of a block whose largest magnitude is `largest`, which is finite: the
/// least e in [-126, 126] with largest <= 2^e × the format's largest number, which is 1.75 × 2^8 or
/// 1.75 × 2^15. A block of zeros has -126, so that it decides nothing where ranks take the largest
/// scale of their parts.
template <class T>
LOCKSTEP_ANYWHERE constexpr int float8_exponent(T largest, int mantissa) {
  using B = FloatBits<T>;
  using Word = typename B::Word;
  if (!(largest > 0)) return -126;
  const Word bits = __builtin_bit_cast(Word, largest);
  const int exponent = static_cast<int>(bits >> B::kMantissa) - B::kBias;
  const Word fraction = bits & ((Word{1} << B::kMantissa) - 1);
  const bool above = fraction > (Word{3} << (B::kMantissa - 2));
  const int e = exponent - (mantissa == kE4M3 ? 8 : 15) + (above ? 1 : 0);
  return e < -126 ? -126 : e > 126 ? 126 : e;
}

/// The exponent of a scale that follows from the largest magnitude of earlier steps, with room for
/// values that are 2^margin times as large. If they were all zero, nothing is known: 2^margin.
template <class T>
LOCKSTEP_ANYWHERE constexpr int delayed_exponent(T largest, int margin, int mantissa) {
  const int e = (largest > 0 ? float8_exponent(largest, mantissa) : 0) + margin;
  return e < -126 ? -126 : e > 126 ? 126 : e;
}

}  // namespace lockstep
