// Sums to scalars, in float64 and in a fixed order. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_vec.hpp"

namespace lockstep::cpu {
namespace {

/// The sum of term(x[i]) over n elements, in 16 running sums by i modulo 16 that are added up at
/// the end.
template <class T, class Term>
double sum_of(const T* x, int64_t n, const Term& term) {
  constexpr int kSums = 16;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int l = 0; l < kSums; ++l) sums[l] += term(static_cast<double>(x[i + l]));
  }
  for (int l = 0; i < n; ++i, ++l) sums[l] += term(static_cast<double>(x[i]));
  for (int half = kSums / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

template <class T>
void run_sum(const KernelArgs& args) {
  double sum = sum_of(input<T>(args, 0), args.dims[0], [](double v) { return v; });
  if (args.accumulate) sum += read_scalar(args.out[0], args.out_f64[0], 0);
  write_scalar(args.out[0], args.out_f64[0], 0, sum);
}

template <class T>
void run_norm_squared(const KernelArgs& args) {
  const int64_t n = args.dims[0], blocks = args.dims[1];
  const int64_t length = (n + blocks - 1) / blocks;
  parallel(*args.team, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * length < n ? b * length : n;
      const int64_t count = n - first < length ? n - first : length;
      double sum = sum_of(input<T>(args, 0) + first, count, [](double v) { return v * v; });
      if (args.accumulate) sum += read_scalar(args.out[0], args.out_f64[0], b);
      write_scalar(args.out[0], args.out_f64[0], b, sum);
    }
  });
}

template <class T>
void run_clip_coefficient(const KernelArgs& args) {
  const double max_norm = args.scalars[0];
  double sum = 0;
  for (int64_t b = 0; b < args.dims[0]; ++b) sum += read_scalar(args.in[0], args.in_f64[0], b);
  const double scale = read_factor(args, 1);
  const double norm = __builtin_sqrt(sum) / scale;
  const double ratio = max_norm / (norm + 1e-6);
  const double coefficient = (max_norm > 0 && ratio < 1 ? ratio : 1.0) / scale;
  const bool skips = args.in[1] && !__builtin_isfinite(norm);
  write_scalar(args.out[0], args.out_f64[0], 0, skips ? -1.0 : coefficient);
  write_scalar(args.out[1], args.out_f64[1], 0, norm);
}

}  // namespace
}  // namespace lockstep::cpu
