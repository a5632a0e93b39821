// Saturating arithmetic for sizes, which also come from program texts, where they may be anything.
#pragma once

#include <cstdint>
#include <limits>

namespace lockstep::saturating {

inline std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::numeric_limits<std::int64_t>::max();
  return sum;
}

inline std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::numeric_limits<std::int64_t>::max();
  return product;
}

}  // namespace lockstep::saturating
