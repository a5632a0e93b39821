// Square root, exponential, sigmoid and hyperbolic tangent of vectors. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_vec.hpp"

namespace lockstep::cpu {
namespace {

// With AVX-512 the masked form is used, because GCC 12 warns about the plain one in its own header.
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

/// exp(x) to about 1 ulp. With x = n ln 2 + r and |r| <= ln(2)/2, it is the Taylor series of
/// exp(r), whose remainder is below half an ulp at the degree used, times 2^n. Results below the
/// smallest normal number are 0; the argument is clamped from above where 2^n would leave the
/// exponent's range.
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
/// 2^t to about one unit in the last place: the softmax of attention, whose scores are scaled
/// anyway, needs fewer operations than for exp. With t = n + f and |f| <= 1/2 it is a polynomial of
/// degree 6 (relative error 1e-8; coefficients of Cephes' exp2f, Moshier 1992), times 2^n. One of
/// degree 5 is off by 1e-7 to one side for long stretches of f, which gradients that are zero by
/// nature, as those of keys' biases, make visible. Results below the smallest normal number are 0;
/// the argument is clamped from above where 2^n would leave the exponent's range, unless the caller
/// knows that it is small.
template <bool kClamps = true>
inline Vec<float> exponential2(Vec<float> t) {
  using V = Vec<float>;
  using I = IntVec<float>;
  const I underflow = t < -126.0f;
  if (kClamps) t = t > 127.0f ? splat(127.0f) : t;
  const float round = 12582912.0f + 127.0f;  // 1.5 * 2^23, which rounds, and the exponent's bias
  const V shifted = t + round;
  const V f = t - (shifted - round);
  V p = f * 1.535336188e-4f + 1.339887440e-3f;
  p = p * f + 9.618437358e-3f;
  p = p * f + 5.550332471e-2f;
  p = p * f + 2.402264791e-1f;
  p = p * f + 6.931472029e-1f;
  p = p * f + 1.0f;
  const V scaled = p * (V)((I)shifted << 23);  // what is above the exponent's bits falls off
  return underflow ? V{} : scaled;
}
template <bool kClamps = true>
inline Vec<double> exponential2(Vec<double> t) {
  return exponential(t * 0.69314718055994530942);
}

/// 1 / (1 + exp(-x)).
template <class T>
inline Vec<T> sigmoid(Vec<T> x) {
  return T(1) / (T(1) + exponential(-x));
}

/// The hyperbolic tangent near 0, where that of exponentials cancels: x + x³ times a polynomial, or
/// a fraction of two, in x² (Cephes' tanhf and tanh, Moshier 1992, for |x| < 0.625).
inline Vec<float> small_tangent(Vec<float> x) {
  using V = Vec<float>;
  const V z = x * x;
  V p = z * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  return p * z * x + x;
}
inline Vec<double> small_tangent(Vec<double> x) {
  using V = Vec<double>;
  const V z = x * x;
  V p = z * -9.64399179425052238628e-1 - 9.92877231001918586564e1;
  p = p * z - 1.61468768441708447952e3;
  V q = z + 1.12811678491632931402e2;
  q = q * z + 2.23548839060100448583e3;
  q = q * z + 4.84406305325125486048e3;
  return p / q * z * x + x;
}
/// tanh(x) to about 1 ulp.
template <class T>
inline Vec<T> hyperbolic_tangent(Vec<T> x) {
  const Vec<T> size = x < T(0) ? -x : x;
  const Vec<T> large = T(1) - T(2) / (exponential(size + size) + T(1));
  return size < T(0.625) ? small_tangent(x) : x < T(0) ? -large : large;
}

}  // namespace
}  // namespace lockstep::cpu
