// The padding of windows that slide over an image, as convolutions and pooling have it.
#pragma once

#include <cstdint>

namespace lockstep {

/// How many positions of padding lie on each side of an image under windows of size × size
/// positions that begin `stride` apart. Windows that lie side by side, as the patches of a vision
/// transformer do (Dosovitskiy et al. 2020, equation 1), have none; others are centred, so that
/// odd ones give ceil(side / stride) results.
constexpr std::int64_t window_padding(std::int64_t size, std::int64_t stride) {
  return size == stride ? 0 : (size - 1) / 2;
}

}  // namespace lockstep
