// Kernels at the two ends of the model: embedding forward and backward, cross entropy.
// Included by isa_*.cpp only.
#pragma once

#include <cassert>

#include "backends/cpu/kernels/simd_math.hpp"
#include "core/base/documents.hpp"

namespace lockstep::cpu {
namespace {

template <class T>
void run_embedding_forward(const KernelArgs& args) {
  const int64_t tokens = args.dims[0], cols = args.dims[1], seq = args.dims[2];
  const int64_t vocab = args.dims[3];
  const std::int32_t* const ids = input<std::int32_t>(args, 0);
  const T* const table = input<T>(args, 1);
  const T* const positions = input<T>(args, 2);
  T* const y = output<T>(args, 0);
  parallel(*args.team, tokens, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* const row = ids[t] >= 0 && ids[t] < vocab ? table + ids[t] * cols : nullptr;
      const T* const position = positions ? positions + t % seq * cols : nullptr;
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        Vec<T> v = row ? load(row + i, n) : Vec<T>{};
        if (position) v += load(position + i, n);
        store(y + t * cols + i, v, n);
      });
    }
  });
}

/// The team splits columns, and tokens are taken in order, so that sums are deterministic although
/// ids are not sorted.
template <class T>
void run_embedding_backward(const KernelArgs& args) {
  const int64_t tokens = args.dims[0], cols = args.dims[1], seq = args.dims[2];
  const int64_t vocab = args.dims[3];
  const std::int32_t* const ids = input<std::int32_t>(args, 0);
  const T* const dy = input<T>(args, 1);
  T* const table = output<T>(args, 0);
  T* const positions = output<T>(args, 1);
  const auto clear = [&](T* p, int64_t n) {
    parallel(*args.team, n, 65536, [&](int64_t begin, int64_t end) {
      __builtin_memset(p + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(T));
    });
  };
  if (!args.accumulate) {
    clear(table, vocab * cols);
    if (positions) clear(positions, seq * cols);
  }
  parallel(*args.team, cols, 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = 0; t < tokens; ++t) {
      T* const row = ids[t] >= 0 && ids[t] < vocab ? table + ids[t] * cols : nullptr;
      T* const position = positions ? positions + t % seq * cols : nullptr;
      for_vectors<T>(begin, end, [&](int64_t i, auto n) {
        const Vec<T> d = load(dy + t * cols + i, n);
        if (row) store(row + i, load(row + i, n) + d, n);
        if (position) store(position + i, load(position + i, n) + d, n);
      });
    }
  });
}

/// Returns the loss of one row and writes its gradient: softmax(x)[i] * scale, minus scale at the
/// target. Both are 0 if the row is ignored.
template <class T>
double cross_entropy_row(const T* x, int64_t cols, int64_t target, T scale, T* dx) {
  if (target == kIgnoredTarget) {
    for_vectors<T>(0, cols, [&](int64_t i, auto n) { store(dx + i, Vec<T>{}, n); });
    return 0;
  }
  assert(target >= 0 && target < cols);
  const T lowest = -__builtin_huge_val();
  Vec<T> top = splat(lowest);
  for_vectors<T>(0, cols,
                 [&](int64_t i, auto n) { top = max<T>(top, keep<T>(load(x + i, n), lowest, n)); });
  const T largest = max_lanes<T>(top);
  const T at_target = x[target];
  Vec<T> sums{};
  for_vectors<T>(0, cols, [&](int64_t i, auto n) {
    const Vec<T> e = exponential(load(x + i, n) - largest);
    sums += keep<T>(e, T(0), n);
    store(dx + i, e, n);
  });
  const T sum = sum_lanes<T>(sums);
  const T factor = scale / sum;
  for_vectors<T>(0, cols, [&](int64_t i, auto n) { store(dx + i, load(dx + i, n) * factor, n); });
  dx[target] -= scale;
  return __builtin_log(static_cast<double>(sum)) + static_cast<double>(largest) -
         static_cast<double>(at_target);
}

template <class T>
void run_cross_entropy(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const std::int32_t* const targets = input<std::int32_t>(args, 1);
  const double scale = args.scalars[0];
  const T gradient_scale = static_cast<T>(scale * read_factor(args, 2));
  double* const losses =
      static_cast<double*>(scratch(Scratch::Rows, static_cast<std::size_t>(rows) * sizeof(double)));
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      losses[r] = cross_entropy_row<T>(input<T>(args, 0) + r * cols, cols, targets[r],
                                       gradient_scale, output<T>(args, 0) + r * cols);
    }
  });
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += losses[r];
  double loss = scale * sum;
  if (args.accumulate) loss += read_scalar(args.out[1], args.out_f64[1], 0);
  write_scalar(args.out[1], args.out_f64[1], 0, loss);
}

/// How many of this rank's columns stand for tokens; the others are padding.
template <class T>
int64_t real_columns(const KernelArgs& args, int operand) {
  const std::int32_t* const columns = input<std::int32_t>(args, operand);
  return columns ? columns[0] : args.dims[1];
}

template <class T>
void run_cross_entropy_stats(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const int64_t real = real_columns<T>(args, 2);
  const std::int32_t* const targets = input<std::int32_t>(args, 1);
  const T lowest = -__builtin_huge_val();
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const x = input<T>(args, 0) + r * cols;
      T* const stats = output<T>(args, 0) + 3 * r;
      Vec<T> top = splat(lowest);
      for_vectors<T>(0, real, [&](int64_t i, auto n) {
        top = max<T>(top, keep<T>(load(x + i, n), lowest, n));
      });
      const T largest = max_lanes<T>(top);
      Vec<T> sums{};
      for_vectors<T>(0, real, [&](int64_t i, auto n) {
        sums += keep<T>(exponential(load(x + i, n) - largest), T(0), n);
      });
      stats[0] = largest;
      stats[1] = real > 0 ? sum_lanes<T>(sums) : T(0);
      stats[2] = targets[r] >= 0 && targets[r] < real ? x[targets[r]] : lowest;
    }
  });
}

template <class T>
void run_cross_entropy_parallel(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1], parts = args.dims[2];
  const int64_t real = real_columns<T>(args, 3);
  const std::int32_t* const targets = input<std::int32_t>(args, 1);
  const T* const stats = input<T>(args, 2);
  const double scale = args.scalars[0];
  const T gradient_scale = static_cast<T>(scale * read_factor(args, 4));
  double* const losses =
      static_cast<double*>(scratch(Scratch::Rows, static_cast<std::size_t>(rows) * sizeof(double)));
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T largest = -__builtin_huge_val();
      T at_target = largest;
      for (int64_t p = 0; p < parts; ++p) {
        const T* const part = stats + (p * rows + r) * 3;
        if (part[0] > largest) largest = part[0];
        if (part[2] > at_target) at_target = part[2];
      }
      T sum = 0;
      for (int64_t p = 0; p < parts; ++p) {
        const T* const part = stats + (p * rows + r) * 3;
        if (part[1] > 0) sum += part[1] * static_cast<T>(__builtin_exp(part[0] - largest));
      }
      const T* const x = input<T>(args, 0) + r * cols;
      T* const dx = output<T>(args, 0) + r * cols;
      const bool ignored = targets[r] == kIgnoredTarget;
      const T factor = ignored ? T(0) : gradient_scale / sum;
      for_vectors<T>(0, real, [&](int64_t i, auto n) {
        store(dx + i, exponential(load(x + i, n) - largest) * factor, n);
      });
      for (int64_t i = real; i < cols; ++i) dx[i] = 0;
      if (targets[r] >= 0 && targets[r] < real) dx[targets[r]] -= gradient_scale;
      losses[r] = ignored ? 0
                          : __builtin_log(static_cast<double>(sum)) + static_cast<double>(largest) -
                                static_cast<double>(at_target);
    }
  });
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += losses[r];
  double loss = scale * sum;
  if (args.accumulate) loss += read_scalar(args.out[1], args.out_f64[1], 0);
  write_scalar(args.out[1], args.out_f64[1], 0, loss);
}

}  // namespace
}  // namespace lockstep::cpu
