// Block codes: values rounded to a few bits to be sent, as host and GPU compute them. Every block
// of consecutive values has a scale, its largest magnitude over the largest code, and a value is
// the code nearest to its quotient by the scale: symmetric quantization by blocks, as ZeRO++ has it
// (Wang et al. 2023, arXiv:2306.10209).
//
// A part of n values with blocks of b lies in memory as ceil(n / b) scales in float32 and then the
// codes, two to a byte if they have 4 bits, the first one in the lower half; whole words of 4
// bytes, so that parts can stand one behind the other.
//
// The error of a value is at most half its block's scale, which is 1/254 of the largest magnitude
// of the block with 8 bits, and 1/14 of it with 4.
#pragma once

#include <cstdint>

#include "core/base/float8.hpp"

namespace lockstep {

/// The largest code, of either sign: 127 of 8 bits, 7 of 4.
LOCKSTEP_ANYWHERE constexpr int largest_code(int bits) { return (1 << (bits - 1)) - 1; }

/// Words of 4 bytes that the codes of a part of n values take.
LOCKSTEP_ANYWHERE constexpr std::int64_t words_of_codes(std::int64_t n, int bits) {
  const std::int64_t in_word = 32 / bits;
  return (n + in_word - 1) / in_word;
}
/// Bytes of a part of n values.
LOCKSTEP_ANYWHERE constexpr std::int64_t bytes_of_codes(std::int64_t n, std::int64_t block,
                                                        int bits) {
  return 4 * ((n + block - 1) / block) + 4 * words_of_codes(n, bits);
}

/// The scale of a block whose largest magnitude is `largest`, or infinity if a value of it is not
/// finite: then all its values become NaN, so that a gradient that overflows can be told.
template <class T>
LOCKSTEP_ANYWHERE constexpr float scale_of_block(T largest, int bits) {
  return static_cast<float>(largest / static_cast<T>(largest_code(bits)));
}

/// The code of a value, of two equally near the even one.
template <class T>
LOCKSTEP_ANYWHERE constexpr int block_code(T value, float scale, int bits) {
  if (!(scale > 0) || __builtin_bit_cast(std::uint32_t, scale) >= FloatBits<float>::kInfinity) {
    return 0;
  }
  // Adding a number whose last digit is 1 rounds to whole ones.
  constexpr T kWhole = sizeof(T) == 8 ? T(6755399441055744) : T(12582912);
  const T most = static_cast<T>(largest_code(bits));
  const T quotient = value / static_cast<T>(scale);
  const T near = quotient > most ? most : quotient < -most ? -most : quotient;
  return static_cast<int>(near + kWhole - kWhole);
}

/// Code i among those of a part, and the reverse. Codes of 4 bits that share a byte are set by one
/// thread, the first one first.
LOCKSTEP_ANYWHERE constexpr int code_at(const std::uint8_t* codes, std::int64_t i, int bits) {
  if (bits == 8) return static_cast<std::int8_t>(codes[i]);
  const int half = i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
  return half < 8 ? half : half - 16;
}
LOCKSTEP_ANYWHERE constexpr void set_code(std::uint8_t* codes, std::int64_t i, int bits, int code) {
  if (bits == 8) {
    codes[i] = static_cast<std::uint8_t>(code);
  } else if (i % 2 == 0) {
    codes[i / 2] = static_cast<std::uint8_t>(code & 15);
  } else {
    codes[i / 2] = static_cast<std::uint8_t>((codes[i / 2] & 15) | (code & 15) << 4);
  }
}

/// The place among `parts` in which the part that lies at `place` of codes lies in the values.
/// Parts go to `targets` ranks, and come in the order of these: those for the first, then those for
/// the second. In the values, every target has one part of each `targets`.
LOCKSTEP_ANYWHERE constexpr std::int64_t part_of_values(std::int64_t place, std::int64_t parts,
                                                        std::int64_t targets) {
  const std::int64_t each = parts / targets;
  return place % each * targets + place / each;
}

}  // namespace lockstep
