// Quantized states: values of an optimizer in 8 bits each, as in Dettmers et al. 2022 (8-bit
// Optimizers via Block-wise Quantization) and bitsandbytes. Every block of consecutive elements has
// a scale, its largest magnitude, and an element is a code of a fraction of it
// (quantized_code.hpp).
//
// A state of n elements with blocks of b lies in memory as ceil(n / b) scales in float32 and then n
// codes. Memory of zeros is a state of zeros.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/quantized_code.hpp"

namespace lockstep {

/// The most elements of a block.
inline constexpr std::int64_t kMostOfBlock = std::int64_t{1} << 31;

/// Bytes of a state of `elements`.
constexpr std::int64_t quantized_bytes(std::int64_t elements, std::int64_t block) {
  return (elements + block - 1) / block * std::int64_t{sizeof(float)} + elements;
}

namespace quantized {

/// quantized_value() of every code, without and with sign, to be looked up.
struct Values {
  float of[2][256] = {};
  constexpr Values() {
    for (int code = 0; code < 256; ++code) {
      of[0][code] = quantized_value(static_cast<std::uint8_t>(code), false);
      of[1][code] = quantized_value(static_cast<std::uint8_t>(code), true);
    }
  }
};
inline constexpr Values kValues;

/// The levels of magnitudes are the values of the first codes.
constexpr std::uint8_t code(float fraction, bool has_sign) {
  const auto level = [&](int i) { return kValues.of[has_sign ? 1 : 0][i]; };
  return quantized_code(fraction, has_sign, level);
}

}  // namespace quantized

/// The shape of a quantized state.
struct QuantizedState {
  std::int64_t elements = 0, block = 1;
  bool has_sign = false;
  std::int64_t blocks() const { return (elements + block - 1) / block; }
  std::int64_t codes() const { return quantized_bytes(elements, block) - elements; }  // first byte
  std::int64_t end_of(std::int64_t b) const { return std::min(elements, (b + 1) * block); }
};

/// Reads blocks [first, last) of a state into their places among `values`, which are all of it.
template <class T>
void read_quantized(const QuantizedState& shape, const std::byte* state, std::int64_t first,
                    std::int64_t last, T* values) {
  const std::byte* const codes = state + shape.codes();
  for (std::int64_t b = first; b < last; ++b) {
    float scale = 0;
    std::memcpy(&scale, state + b * std::int64_t{sizeof scale}, sizeof scale);
    for (std::int64_t i = b * shape.block; i < shape.end_of(b); ++i) {
      const auto code = static_cast<std::uint8_t>(codes[i]);
      values[i] = T{quantized::kValues.of[shape.has_sign ? 1 : 0][code] * scale};
    }
  }
}

/// Writes these blocks, with their scales.
template <class T>
void write_quantized(const QuantizedState& shape, const T* values, std::int64_t first,
                     std::int64_t last, std::byte* state) {
  std::byte* const codes = state + shape.codes();
  for (std::int64_t b = first; b < last; ++b) {
    T most = 0;
    for (std::int64_t i = b * shape.block; i < shape.end_of(b); ++i) {
      most = std::max(most, values[i] < 0 ? -values[i] : values[i]);
    }
    const auto scale = static_cast<float>(most);
    std::memcpy(state + b * std::int64_t{sizeof scale}, &scale, sizeof scale);
    for (std::int64_t i = b * shape.block; i < shape.end_of(b); ++i) {
      const auto fraction = scale > 0 ? static_cast<float>(values[i] / T{scale}) : 0.0F;
      codes[i] = std::byte{quantized::code(fraction, shape.has_sign)};
    }
  }
}

}  // namespace lockstep
