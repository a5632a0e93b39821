// float16: IEEE 754's binary16, for storage only; arithmetic is done in float.
#pragma once

#include <bit>
#include <cstdint>

#include "core/base/mix.hpp"

namespace lockstep {

/// The bits of the float16 nearest to `value`, ties to even: 65520 and more are infinite, 2^-25 and
/// less are zero, and numbers below 2^-14 are subnormal, as hardware has them.
LOCKSTEP_ANYWHERE constexpr std::uint16_t float16_bits(float value) {
  const auto wide = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = (wide >> 16) & 0x8000U, magnitude = wide & 0x7fffffffU;
  std::uint32_t bits = 0;
  if (magnitude >= 0x47800000U) {  // 65536 and more, infinite or not a number
    bits = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  } else if (magnitude < 0x38800000U) {
    // Added to 0.5, whose last bit is worth 2^-24, the value is rounded as a subnormal is.
    const float sum = __builtin_bit_cast(float, magnitude) + 0.5F;
    bits = __builtin_bit_cast(std::uint32_t, sum) - 0x3f000000U;
  } else {  // a carry out of the mantissa raises the exponent, up to that of infinity
    bits = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | bits);
}

/// The value of a float16, which every float16 has as a float32.
LOCKSTEP_ANYWHERE constexpr float float16_value(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16, rest = bits & 0x7fffU;
  if (rest >= 0x7c00U) return __builtin_bit_cast(float, sign | 0x7f800000U | (rest << 13));
  if (rest >= 0x400U) return __builtin_bit_cast(float, sign | ((rest << 13) + (112U << 23)));
  const float small = __builtin_bit_cast(float, 0x3f000000U | rest) - 0.5F;  // rest × 2^-24
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, small));
}

struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value) : bits(float16_bits(value)) {}
  explicit operator float() const { return float16_value(bits); }
  bool operator==(const float16&) const = default;
};
static_assert(sizeof(float16) == 2);

}  // namespace lockstep
