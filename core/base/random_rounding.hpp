// Stochastic rounding of float32 to bfloat16 (Gupta et al. 2015): a value is rounded up with a
// probability equal to the fraction that is cut off. Small updates, which rounding to nearest would
// lose, are thus kept on average. The random bits are a function of the seed, the step and the
// element's values before its update, so that they are the same wherever the element lies, and need
// no state.
#pragma once

#include <cstdint>

#include "core/base/mix.hpp"

namespace lockstep {

/// The key of a step of a run, for rounding_bits().
LOCKSTEP_ANYWHERE constexpr std::uint64_t rounding_key(std::uint64_t seed, std::int64_t step) {
  return mix64(mix64(seed) + static_cast<std::uint64_t>(step) * kGoldenGamma);
}

/// The upper half of a float32: all of a bfloat16.
LOCKSTEP_ANYWHERE constexpr std::uint16_t upper_half(float x) {
  return static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, x) >> 16);
}

/// 16 random bits for an element with this weight and these moments, which are bfloat16 values, and
/// this gradient.
LOCKSTEP_ANYWHERE constexpr std::uint32_t rounding_bits(std::uint64_t key, float weight,
                                                        float first, float second, float gradient) {
  const std::uint64_t element = std::uint64_t{upper_half(weight)} << 48 |
                                std::uint64_t{upper_half(first)} << 32 |
                                std::uint64_t{upper_half(second)} << 16 | upper_half(gradient);
  return static_cast<std::uint32_t>(mix64(key ^ element) >> 48);
}

/// The bfloat16 below or above x, as a float32; x itself if it is a bfloat16 or is not finite.
LOCKSTEP_ANYWHERE constexpr float rounded_at_random(float x, std::uint32_t bits) {
  const auto whole = __builtin_bit_cast(std::uint32_t, x);
  if ((whole & 0x7f800000u) == 0x7f800000u) return x;
  return __builtin_bit_cast(float, (whole + bits) & 0xffff0000u);
}

}  // namespace lockstep
