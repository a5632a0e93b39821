// Vectors of the instruction set for which this file is compiled, as GCC's and Clang's vector
// extensions, so that one source serves SSE2, AVX2, AVX-512 and any other machine. Included by
// isa_*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/kernels/kernel_table.hpp"

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
  typedef std::uint32_t Words __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES)));
  using Int = std::int32_t;
};
template <>
struct VecOf<double> {
  typedef double V __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES)));
  typedef double Unaligned
      __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES), aligned(8), may_alias));
  typedef std::int64_t I __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES)));
  typedef std::uint32_t Words __attribute__((vector_size(LOCKSTEP_VECTOR_BYTES / 2)));
  using Int = std::int64_t;
};
template <class T>
using Vec = typename VecOf<T>::V;
template <class T>
using IntVec = typename VecOf<T>::I;
/// Words of 32 bits, one for each lane of a Vec<T>.
template <class T>
using WordVec = typename VecOf<T>::Words;
template <class T>
inline constexpr int kWidth = LOCKSTEP_VECTOR_BYTES / static_cast<int>(sizeof(T));

/// How many elements of a vector a load or store touches: all of them, or the first n at the tail
/// of a row. A tail goes through the same vector arithmetic, so that the value of an element never
/// depends on its position: the last elements of a shard equal those of the whole tensor bit for
/// bit.
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
/// Returns `v` with the elements beyond the part replaced by `fill`.
template <class T>
inline Vec<T> keep(Vec<T> v, T, Full) {
  return v;
}
template <class T>
inline Vec<T> keep(Vec<T> v, T fill, Part part) {
  for (int i = part.n; i < kWidth<T>; ++i) v[i] = fill;
  return v;
}

/// Calls f(i, Full or Part) over [begin, end), one vector at a time.
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

/// ThreadTeam::parallel_for for a lambda, without a std::function in this file (see
/// kernel_table.hpp).
template <class F>
inline void parallel(ThreadTeam& team, int64_t n, int64_t grain, const F& body) {
  parallel_ranges(
      team, n, grain,
      [](const void* context, int64_t begin, int64_t end) {
        (*static_cast<const F*>(context))(begin, end);
      },
      &body);
}
/// Rows per chunk of parallel work, so that a chunk has about 16 K elements.
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
/// The factor of an optional operand of one element: 1 if it is absent.
inline double read_factor(const KernelArgs& args, int operand) {
  return args.in[operand] ? read_scalar(args.in[operand], args.in_f64[operand], 0) : 1.0;
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
