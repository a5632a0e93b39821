// bfloat16 in memory, float32 in registers. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_vec.hpp"

namespace lockstep::cpu {
namespace {

using Bits = std::uint16_t;  // of a bfloat16

typedef Bits Halves __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES / 2)));
typedef std::uint32_t Words __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES)));  // of a float32

inline int64_t count_of(Full) { return kWidth<float>; }
inline int64_t count_of(Part part) { return part.n; }

/// The bits of `n` elements in the lower halves of words; zeros beyond them.
inline Words widened(const Bits* p, int64_t n = kWidth<float>) {
  Halves halves{};
  __builtin_memcpy(&halves, p, static_cast<std::size_t>(n) * sizeof(Bits));
  return __builtin_convertvector(halves, Words);
}

/// Elements as values, whatever type they have in memory.
template <class T, class N = Full>
inline Vec<T> load_values(const T* p, N n = {}) {
  return load(p, n);
}
template <class N = Full>
inline Vec<float> load_values(const Bits* p, N n = {}) {
  return (Vec<float>)(widened(p, count_of(n)) << 16);
}
template <class T, class N = Full>
inline void store_values(T* p, Vec<T> v, N n = {}) {
  store(p, v, n);
}
/// Rounds to nearest, ties to even; NaNs stay NaNs (core/base/bfloat16.hpp).
template <class N = Full>
inline void store_values(Bits* p, Vec<float> v, N n = {}) {
  const Words wide = (Words)v, upper = wide >> 16;
  const Words nearest = (wide + 0x7fffu + (upper & 1u)) >> 16;
  const auto is_nan = (wide & 0x7fffffffu) > 0x7f800000u;
  const Halves halves = __builtin_convertvector(is_nan ? upper | 0x40u : nearest, Halves);
  __builtin_memcpy(p, &halves, static_cast<std::size_t>(count_of(n)) * sizeof(Bits));
}
template <class T>
inline T value_of(T x) {
  return x;
}
inline float value_of(Bits x) { return __builtin_bit_cast(float, std::uint32_t{x} << 16); }

}  // namespace
}  // namespace lockstep::cpu
