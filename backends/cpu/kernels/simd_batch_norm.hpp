// Batch norm (Ioffe and Szegedy 2015) over columns: statistics, forward, and backward for input and
// for weight. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_gemm.hpp"
#include "backends/cpu/kernels/simd_math.hpp"

namespace lockstep::cpu {
namespace {

inline constexpr int64_t kRowsOfPartialSum = 512;

/// out[s][c] = sum over rows of the s-th value of term(row, c, n). Rows are summed in groups of 8,
/// these sums in groups of 512, and those in order, so that a sum over a million rows is as precise
/// as one over a thousand, and the team may share the work.
template <class T, int kSums, class Term>
void sum_columns(ThreadTeam& team, int64_t rows, int64_t cols, T* out, const Term& term) {
  constexpr int64_t kGroup = 8;
  const int64_t chunks = (rows + kRowsOfPartialSum - 1) / kRowsOfPartialSum;
  const int64_t size = kSums * cols;
  T* const partial =
      static_cast<T*>(scratch(Scratch::Rows, static_cast<std::size_t>(chunks * size) * sizeof(T)));
  parallel(team, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      T* const mine = partial + chunk * size;
      __builtin_memset(mine, 0, static_cast<std::size_t>(size) * sizeof(T));
      const int64_t last = least((chunk + 1) * kRowsOfPartialSum, rows);
      for (int64_t row = chunk * kRowsOfPartialSum; row < last; row += kGroup) {
        const int64_t stop = least(row + kGroup, last);
        for_vectors<T>(0, cols, [&](int64_t c, auto n) {
          Vec<T> sums[kSums] = {};
          for (int64_t r = row; r < stop; ++r) term(r, c, n, sums);
          for (int s = 0; s < kSums; ++s) {
            T* const to = mine + s * cols + c;
            store(to, load(to, n) + sums[s], n);
          }
        });
      }
    }
  });
  for_vectors<T>(0, size, [&](int64_t i, auto n) {
    Vec<T> sum{};
    for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += load(partial + chunk * size + i, n);
    store(out + i, sum, n);
  });
}

template <class T>
void scale_columns(T* values, int64_t cols, T factor) {
  for_vectors<T>(0, cols,
                 [&](int64_t c, auto n) { store(values + c, load(values + c, n) * factor, n); });
}

template <class T>
void run_batch_norm_statistics(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T* const x = input<T>(args, 0);
  T* const mean = output<T>(args, 0);
  T* const variance = mean + cols;
  const T share = T(1) / static_cast<T>(rows);
  sum_columns<T, 1>(*args.team, rows, cols, mean,
                    [&](int64_t r, int64_t c, auto n, Vec<T>(&sums)[1]) {
                      sums[0] += load(x + r * cols + c, n);
                    });
  scale_columns(mean, cols, share);
  sum_columns<T, 1>(*args.team, rows, cols, variance,
                    [&](int64_t r, int64_t c, auto n, Vec<T>(&sums)[1]) {
                      const Vec<T> d = load(x + r * cols + c, n) - load(mean + c, n);
                      sums[0] += d * d;
                    });
  scale_columns(variance, cols, share);
}

/// For parts of equal size, the variance of all is the mean of the variances plus the variance of
/// the means (Chan, Golub and LeVeque 1979).
template <class T>
void run_batch_norm_combine(const KernelArgs& args) {
  const int64_t parts = args.dims[0], cols = args.dims[1];
  const T* const each = input<T>(args, 0);
  T* const stats = output<T>(args, 0);
  const T share = T(1) / static_cast<T>(parts);
  for_vectors<T>(0, cols, [&](int64_t c, auto n) {
    Vec<T> mean{}, variance{};
    for (int64_t p = 0; p < parts; ++p) mean += load(each + p * 2 * cols + c, n);
    mean *= share;
    for (int64_t p = 0; p < parts; ++p) {
      const Vec<T> d = load(each + p * 2 * cols + c, n) - mean;
      variance += load(each + (p * 2 + 1) * cols + c, n) + d * d;
    }
    store(stats + c, mean, n);
    store(stats + cols + c, variance * share, n);
  });
}

template <class T>
void run_batch_norm_running(const KernelArgs& args) {
  const int64_t cols = args.dims[0];
  const T momentum = static_cast<T>(args.scalars[0]);
  const T corrections[2] = {T(1), static_cast<T>(args.scalars[1])};
  for (int which = 0; which < 2; ++which) {
    const T* const stats = input<T>(args, 0) + which * cols;
    T* const running = output<T>(args, 0) + which * cols;
    for_vectors<T>(0, cols, [&](int64_t c, auto n) {
      const Vec<T> old = load(running + c, n);
      store(running + c, old + momentum * (load(stats + c, n) * corrections[which] - old), n);
    });
  }
}

/// 1 / sqrt(var + eps) of a vector of columns.
template <class T, class N>
inline Vec<T> inverse_deviation(const T* variance, int64_t c, T eps, N n) {
  return T(1) / square_root(load(variance + c, n) + eps);
}

/// Calls body(begin, end) for blocks of rows that stay in the cache while their columns are walked.
template <class Body>
void for_row_blocks(ThreadTeam& team, int64_t rows, int64_t cols, const Body& body) {
  const int64_t block = row_grain(cols);
  parallel(team, rows, block, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += block) body(row, least(row + block, end));
  });
}

template <class T>
void run_batch_norm_forward(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T eps = static_cast<T>(args.scalars[0]);
  const T* const w = input<T>(args, 1);
  const T* const b = input<T>(args, 2);
  const T* const mean = input<T>(args, 3);
  for_row_blocks(*args.team, rows, cols, [&](int64_t begin, int64_t end) {
    for_vectors<T>(0, cols, [&](int64_t c, auto n) {
      const Vec<T> scale = inverse_deviation(mean + cols, c, eps, n) * load(w + c, n);
      const Vec<T> centre = load(mean + c, n), shift = load(b + c, n);
      for (int64_t r = begin; r < end; ++r) {
        Vec<T> y = (load(input<T>(args, 0) + r * cols + c, n) - centre) * scale + shift;
        if (args.in[4]) y += load(input<T>(args, 4) + r * cols + c, n);
        store(output<T>(args, 0) + r * cols + c, y, n);
      }
    });
  });
}

template <class T>
void run_batch_norm_backward_sums(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T eps = static_cast<T>(args.scalars[0]);
  const T* const dy = input<T>(args, 0);
  const T* const x = input<T>(args, 1);
  const T* const mean = input<T>(args, 2);
  T* const sums = output<T>(args, 0);
  sum_columns<T, 2>(*args.team, rows, cols, sums,
                    [&](int64_t r, int64_t c, auto n, Vec<T>(&sum)[2]) {
                      const Vec<T> g = load(dy + r * cols + c, n);
                      sum[0] += g;
                      sum[1] += g * (load(x + r * cols + c, n) - load(mean + c, n));
                    });
  for_vectors<T>(0, cols, [&](int64_t c, auto n) {
    const Vec<T> scale = inverse_deviation(mean + cols, c, eps, n);
    store(sums + cols + c, load(sums + cols + c, n) * scale, n);
  });
}

template <class T>
void run_batch_norm_backward_input(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T eps = static_cast<T>(args.scalars[0]);
  const T share = static_cast<T>(1 / args.scalars[1]);
  const T* const mean = input<T>(args, 3);
  const T* const sums = input<T>(args, 4);
  for_row_blocks(*args.team, rows, cols, [&](int64_t begin, int64_t end) {
    for_vectors<T>(0, cols, [&](int64_t c, auto n) {
      const Vec<T> deviation = inverse_deviation(mean + cols, c, eps, n);
      const Vec<T> scale = load(input<T>(args, 2) + c, n) * deviation;
      const Vec<T> centre = load(mean + c, n);
      const Vec<T> mean_dy = load(sums + c, n) * share;
      const Vec<T> slope = load(sums + cols + c, n) * share * deviation;
      for (int64_t r = begin; r < end; ++r) {
        const Vec<T> g = load(input<T>(args, 0) + r * cols + c, n);
        const Vec<T> d = load(input<T>(args, 1) + r * cols + c, n) - centre;
        store(output<T>(args, 0) + r * cols + c, scale * (g - mean_dy - d * slope), n);
      }
    });
  });
}

template <class T>
void run_batch_norm_backward_weight(const KernelArgs& args) {
  const int64_t cols = args.dims[0];
  T* const outputs[2] = {output<T>(args, 1), output<T>(args, 0)};  // db first, then dw, as the sums
  for (int which = 0; which < 2; ++which) {
    const T* const sum = input<T>(args, 0) + which * cols;
    T* const to = outputs[which];
    for_vectors<T>(0, cols, [&](int64_t c, auto n) {
      store(to + c, args.accumulate ? load(to + c, n) + load(sum + c, n) : load(sum + c, n), n);
    });
  }
}

}  // namespace
}  // namespace lockstep::cpu
