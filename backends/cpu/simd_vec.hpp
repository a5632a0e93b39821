// Vectors of the instruction set this file is compiled for, as GCC and Clang vector extensions:
// one source for SSE2, AVX2, AVX-512 and any other machine. Included by isa_*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/kernel_table.hpp"

#if defined(__AVX512F__)
#define LOCKSTEP_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define LOCKSTEP_VECTOR_BYTES 32
#else
#define LOCKSTEP_VECTOR_BYTES 16
#endif

#if defined(__clang__)
#define LOCKSTEP_UNROLL _Pragma("unroll")
#else
#define LOCKSTEP_UNROLL _Pragma("GCC unroll 16")
#endif

namespace lockstep::cpu {
namespace {

using std::int64_t;

template <class T>
struct VecOf;
template <>
struct VecOf<float> {
  typedef float V __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES)));
  typedef float Unaligned
      __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES), aligned(4), may_alias));
  typedef std::int32_t I __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES)));
  using Int = std::int32_t;
};
template <>
struct VecOf<double> {
  typedef double V __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES)));
  typedef double Unaligned
      __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES), aligned(8), may_alias));
  typedef std::int64_t I __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES)));
  using Int = std::int64_t;
};
template <class T>
using Vec = typename VecOf<T>::V;
template <class T>
using IntVec = typename VecOf<T>::I;
template <class T>
inline constexpr int kWidth = LOCKSTEP_VECTOR_BYTES / static_cast<int>(sizeof(T));

/// How many elements of a vector a load or store touches: all, or the first n of a row's tail. A
/// tail goes through the same vector arithmetic, so that an element's value never depends on its
/// position (a shard's last elements equal those of the whole tensor bit for bit).
struct Full {};
struct Part {
  int n;
};

template <class T>
inline Vec<T> splat(T x) {
  return x - Vec<T>{};  // exact for -0 too
}
template <class T>
inline Vec<T> load(const T* p, Full = {}) {
  return *reinterpret_cast<const typename VecOf<T>::Unaligned*>(p);
}
template <class T>
inline Vec<T> load(const T* p, Part part) {
  Vec<T> v{};
  __builtin_memcpy(&v, p, static_cast<std::size_t>(part.n) * sizeof(T));
  return v;
}
template <class T>
inline void store(T* p, Vec<T> v, Full = {}) {
  *reinterpret_cast<typename VecOf<T>::Unaligned*>(p) = v;
}
template <class T>
inline void store(T* p, Vec<T> v, Part part) {
  __builtin_memcpy(p, &v, static_cast<std::size_t>(part.n) * sizeof(T));
}
/// `v` with the elements beyond the part replaced by `fill`.
template <class T>
inline Vec<T> keep(Vec<T> v, T, Full) {
  return v;
}
template <class T>
inline Vec<T> keep(Vec<T> v, T fill, Part part) {
  for (int i = part.n; i < kWidth<T>; ++i) v[i] = fill;
  return v;
}

/// f(i, Full or Part) over [begin, end), one vector at a time.
template <class T, class F>
inline void for_vectors(int64_t begin, int64_t end, const F& f) {
  int64_t i = begin;
  for (; i + kWidth<T> <= end; i += kWidth<T>) f(i, Full{});
  if (i < end) f(i, Part{static_cast<int>(end - i)});
}

template <class T>
inline T sum_lanes(Vec<T> v) {
  T lanes[kWidth<T>];
  store(lanes, v);
  for (int half = kWidth<T> / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}
template <class T>
inline T max_lanes(Vec<T> v) {
  T best = v[0];
  for (int i = 1; i < kWidth<T>; ++i) best = v[i] > best ? v[i] : best;
  return best;
}
template <class T>
inline Vec<T> max(Vec<T> a, Vec<T> b) {
  return a > b ? a : b;
}

// The masked form with AVX-512: GCC 12 warns about its own header's plain one.
inline Vec<float> square_root(Vec<float> v) {
#if defined(__AVX512F__)
  return (Vec<float>)_mm512_maskz_sqrt_ps(0xffff, (__m512)v);
#elif defined(__AVX2__)
  return (Vec<float>)_mm256_sqrt_ps((__m256)v);
#elif defined(__x86_64__)
  return (Vec<float>)_mm_sqrt_ps((__m128)v);
#else
  for (int i = 0; i < kWidth<float>; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
#endif
}
inline Vec<double> square_root(Vec<double> v) {
#if defined(__AVX512F__)
  return (Vec<double>)_mm512_maskz_sqrt_pd(0xff, (__m512d)v);
#elif defined(__AVX2__)
  return (Vec<double>)_mm256_sqrt_pd((__m256d)v);
#elif defined(__x86_64__)
  return (Vec<double>)_mm_sqrt_pd((__m128d)v);
#else
  for (int i = 0; i < kWidth<double>; ++i) v[i] = __builtin_sqrt(v[i]);
  return v;
#endif
}

/// exp, to about 1 ulp: x = n ln 2 + r with |r| <= ln(2)/2, Taylor series of exp(r) (remainder
/// below half an ulp at the degree used), times 2^n. Below the smallest normal result: 0; the
/// argument is clamped from above where 2^n would leave the exponent range.
inline Vec<float> exponential(Vec<float> x) {
  using V = Vec<float>;
  using I = IntVec<float>;
  const I underflow = x < -87.0f;
  x = x > 88.0f ? splat(88.0f) : x;
  const float round = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const V shifted = x * 1.44269504088896f + round;
  const V n = shifted - round;
  const V r = (x - n * 0.693145751953125f) - n * 1.42860682030941723e-6f;
  V p = r * (1 / 5040.0f) + 1 / 720.0f;
  p = p * r + 1 / 120.0f;
  p = p * r + 1 / 24.0f;
  p = p * r + 1 / 6.0f;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  const I exponent = (I)shifted - 0x4b400000 + 127;  // bits of `round`
  const V scaled = p * (V)(exponent << 23);
  return underflow ? V{} : scaled;
}
inline Vec<double> exponential(Vec<double> x) {
  using V = Vec<double>;
  using I = IntVec<double>;
  const I underflow = x < -708.0;
  x = x > 709.0 ? splat(709.0) : x;
  const double round = 6755399441055744.0;  // 1.5 * 2^52
  const V shifted = x * 1.4426950408889634074 + round;
  const V n = shifted - round;
  const V r = (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
  V p = r * (1 / 6227020800.0) + 1 / 479001600.0;
  p = p * r + 1 / 39916800.0;
  p = p * r + 1 / 3628800.0;
  p = p * r + 1 / 362880.0;
  p = p * r + 1 / 40320.0;
  p = p * r + 1 / 5040.0;
  p = p * r + 1 / 720.0;
  p = p * r + 1 / 120.0;
  p = p * r + 1 / 24.0;
  p = p * r + 1 / 6.0;
  p = p * r + 0.5;
  p = (p * r) * r + r + 1.0;
  const I exponent = (I)shifted - 0x4338000000000000 + 1023;
  const V scaled = p * (V)(exponent << 52);
  return underflow ? V{} : scaled;
}
/// 1 / (1 + exp(-x)).
template <class T>
inline Vec<T> sigmoid(Vec<T> x) {
  return T(1) / (T(1) + exponential(-x));
}

/// ThreadTeam::parallel_for over a lambda, without a std::function in this file.
template <class F>
inline void parallel(ThreadTeam& team, int64_t n, int64_t grain, const F& body) {
  parallel_ranges(
      team, n, grain,
      [](const void* context, int64_t begin, int64_t end) {
        (*static_cast<const F*>(context))(begin, end);
      },
      &body);
}
/// Rows per parallel chunk so that a chunk is some 16 K elements.
inline int64_t row_grain(int64_t cols) { return cols >= 16384 ? 1 : 16384 / (cols > 0 ? cols : 1); }

template <class T>
inline const T* input(const KernelArgs& args, int i) {
  return reinterpret_cast<const T*>(args.in[i]);
}
template <class T>
inline T* output(const KernelArgs& args, int i) {
  return reinterpret_cast<T*>(args.out[i]);
}
/// Element i of an operand that holds scalars of its own type.
inline double read_scalar(const std::byte* p, bool f64, int64_t i) {
  return f64 ? reinterpret_cast<const double*>(p)[i]
             : static_cast<double>(reinterpret_cast<const float*>(p)[i]);
}
inline void write_scalar(std::byte* p, bool f64, int64_t i, double value) {
  if (f64) {
    reinterpret_cast<double*>(p)[i] = value;
  } else {
    reinterpret_cast<float*>(p)[i] = static_cast<float>(value);
  }
}

}  // namespace
}  // namespace lockstep::cpu
