// Quantized codes: the 256 fractions of a scale that an element of a quantized state can be
// (quantized_state.hpp), as host and GPU compute them. They are dynamic: their steps grow with them
// over seven decades, because moments differ by decades (Dettmers et al. 2022).
#pragma once

#include <cstdint>

#include "core/base/mix.hpp"

namespace lockstep {

/// Level `level` of the magnitudes, ascending: 0, and up to 1 at the last one, which is 128 if
/// states have signs and 255 if they have none. Between them, decade e has 2^e levels, e from 0 to
/// 6 with signs and from 1 to 7 without, each in the middle of its part of the decade. Only the
/// last product is rounded, so that all devices have the same bits.
LOCKSTEP_ANYWHERE constexpr float quantized_level(int level, bool has_sign) {
  if (level == 0) return 0;
  if (level == (has_sign ? 128 : 255)) return 1;
  const int k = has_sign ? level : level + 1;
  // The exponent of k, which is less than 2^24, as float32 has it.
  const int e =
      static_cast<int>(__builtin_bit_cast(std::uint32_t, static_cast<float>(k)) >> 23) - 127;
  const float tenths[] = {1e-1F, 1e-2F, 1e-3F, 1e-4F, 1e-5F, 1e-6F, 1e-7F};
  const float parts = static_cast<float>(1 << e);
  return (9.0F * static_cast<float>(k) - 8.0F * parts + 4.5F) / parts *
         tenths[(has_sign ? 6 : 7) - e];
}

/// The fraction of the scale that a code stands for. Codes above 128 of states with signs are
/// negative.
LOCKSTEP_ANYWHERE constexpr float quantized_value(std::uint8_t code, bool has_sign) {
  if (!has_sign || code <= 128) return quantized_level(code, has_sign);
  return -quantized_level(code - 127, true);
}

/// quantized_level() of one kind of states.
struct QuantizedLevels {
  bool has_sign = false;
  LOCKSTEP_ANYWHERE constexpr float operator()(int level) const {
    return quantized_level(level, has_sign);
  }
};

/// The code whose value is nearest to `fraction`, which is in [-1, 1]; of two, the one nearer to 0.
/// A state without signs takes the magnitude. Not a number becomes 0.
///
/// bitsandbytes has no code for -1, but one for the negative of the lowest level. Here it is the
/// other way round, so that a scale is the magnitude of one of its values: reading a block and
/// writing it again changes nothing, and a checkpoint can hold moments as float32.
///
/// `level(i)` is quantized_level(i, has_sign): computed, as QuantizedLevels does, or from a table.
template <class Level>
LOCKSTEP_ANYWHERE constexpr std::uint8_t quantized_code(float fraction, bool has_sign,
                                                        const Level& level) {
  const float magnitude = fraction < 0 ? -fraction : fraction;
  if (!(magnitude > 0)) return 0;
  const int last = has_sign ? 128 : 255;
  int e = has_sign ? 6 : 7;
  float digits = magnitude * 10;  // from 1 to 10 in its decade
  for (const int lowest = has_sign ? 0 : 1; e > lowest && digits < 1; --e) digits *= 10;
  const int parts = 1 << e;
  int part = static_cast<int>((digits - 1) * static_cast<float>(parts) * (1 / 9.0F));
  if (digits < 1) part = 0;
  if (part > parts - 1) part = parts - 1;
  int found = parts + part - (has_sign ? 0 : 1);
  // Next to the end of a decade, the nearest level may be in the other one.
  const float own = level(found);
  if (found < last && magnitude - own > level(found + 1) - magnitude) {
    ++found;
  } else if (magnitude - level(found - 1) <= own - magnitude) {
    --found;
  }
  if (!has_sign || fraction > 0) return static_cast<std::uint8_t>(found);
  if (found == 1) found = magnitude > level(2) - magnitude ? 2 : 0;  // has no negative
  return static_cast<std::uint8_t>(found == 0 ? 0 : found + 127);
}

}  // namespace lockstep
