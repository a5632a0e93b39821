// Basis: the directions from which low-rank factors begin.
#pragma once

#include <cstdint>

#include "core/base/mix.hpp"

namespace lockstep {

/// Element (row, col) of a fixed matrix of numbers in [-1, 1), the columns of which have no
/// direction in common with anything that trains. Every one of them is a float32.
LOCKSTEP_ANYWHERE constexpr float fixed_direction(std::int64_t row, std::int64_t col) {
  const std::uint64_t bits =
      mix64(static_cast<std::uint64_t>(row) * kGoldenGamma + static_cast<std::uint64_t>(col));
  return static_cast<float>(static_cast<std::int64_t>(bits >> 41)) / float{1 << 22} - 1;
}

}  // namespace lockstep
