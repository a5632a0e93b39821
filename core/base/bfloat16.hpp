// bfloat16: a type for storage only; arithmetic is done in float.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {

/// The upper half of a float32.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  /// Rounds to nearest, ties to even, as hardware does; infinities and NaNs stay what they are.
  explicit bfloat16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (wide & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>(is_nan ? (wide >> 16) | 0x40U
                                             : (wide + 0x7fffU + ((wide >> 16) & 1U)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  bool operator==(const bfloat16&) const = default;
};
static_assert(sizeof(bfloat16) == 2);

}  // namespace lockstep
