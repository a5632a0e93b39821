// LayerNorm, RMSNorm and norms of heads, forward and backward. The team splits rows; for gradients
// of weights it splits columns and takes the rows in order. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_math.hpp"

namespace lockstep::cpu {
namespace {

template <class T>
void run_layer_norm_forward(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T* const w = input<T>(args, 1);
  const T* const b = input<T>(args, 2);
  const T eps = static_cast<T>(args.scalars[0]);
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const x = input<T>(args, 0) + r * cols;
      T* const y = output<T>(args, 0) + r * cols;
      T* const stats = output<T>(args, 1) + r * 2;
      Vec<T> sum{};
      for_vectors<T>(0, cols, [&](int64_t i, auto n) { sum += load(x + i, n); });
      const T mean = sum_lanes<T>(sum) / static_cast<T>(cols);
      Vec<T> squares{};
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        const Vec<T> d = keep<T>(load(x + i, n) - mean, T(0), n);
        squares += d * d;
      });
      const T variance = sum_lanes<T>(squares) / static_cast<T>(cols);
      const T scale = T(1) / square_root(splat(variance + eps))[0];
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        store(y + i, (load(x + i, n) - mean) * scale * load(w + i, n) + load(b + i, n), n);
      });
      stats[0] = mean;
      stats[1] = scale;
    }
  });
}

template <class T>
void run_layer_norm_backward_input(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T* const w = input<T>(args, 2);
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const dy = input<T>(args, 0) + r * cols;
      const T* const x = input<T>(args, 1) + r * cols;
      const T mean = input<T>(args, 3)[r * 2], scale = input<T>(args, 3)[r * 2 + 1];
      const T* const resid = input<T>(args, 4) ? input<T>(args, 4) + r * cols : nullptr;
      T* const dx = output<T>(args, 0) + r * cols;
      Vec<T> sum{}, sum_xhat{};
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        const Vec<T> g = load(dy + i, n) * load(w + i, n);
        sum += g;
        sum_xhat += g * ((load(x + i, n) - mean) * scale);
      });
      const T g_mean = sum_lanes<T>(sum) / static_cast<T>(cols);
      const T g_xhat_mean = sum_lanes<T>(sum_xhat) / static_cast<T>(cols);
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        const Vec<T> xhat = (load(x + i, n) - mean) * scale;
        Vec<T> d = (load(dy + i, n) * load(w + i, n) - g_mean - xhat * g_xhat_mean) * scale;
        if (resid) d += load(resid + i, n);
        store(dx + i, d, n);
      });
    }
  });
}

template <class T>
void run_rms_norm_forward(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T* const w = input<T>(args, 1);
  const T eps = static_cast<T>(args.scalars[0]);
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const x = input<T>(args, 0) + r * cols;
      T* const y = output<T>(args, 0) + r * cols;
      Vec<T> squares{};
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        const Vec<T> v = load(x + i, n);
        squares += v * v;
      });
      const T mean_square = sum_lanes<T>(squares) / static_cast<T>(cols);
      const T scale = T(1) / square_root(splat(mean_square + eps))[0];
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        store(y + i, load(x + i, n) * scale * load(w + i, n), n);
      });
      output<T>(args, 1)[r] = scale;
    }
  });
}

template <class T>
void run_rms_norm_backward_input(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T* const w = input<T>(args, 2);
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const dy = input<T>(args, 0) + r * cols;
      const T* const x = input<T>(args, 1) + r * cols;
      const T scale = input<T>(args, 3)[r];
      const T* const resid = input<T>(args, 4) ? input<T>(args, 4) + r * cols : nullptr;
      T* const dx = output<T>(args, 0) + r * cols;
      Vec<T> sum{};
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        sum += load(dy + i, n) * load(w + i, n) * (load(x + i, n) * scale);
      });
      const T mean = sum_lanes<T>(sum) / static_cast<T>(cols);
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        const Vec<T> xhat = load(x + i, n) * scale;
        Vec<T> d = (load(dy + i, n) * load(w + i, n) - xhat * mean) * scale;
        if (resid) d += load(resid + i, n);
        store(dx + i, d, n);
      });
    }
  });
}

/// Rows whose sums are taken together before they are added to the running column sums: enough to
/// read the column sums rarely, few enough for the hardware's stream prefetchers.
inline constexpr int64_t kRowsAtOnce = 8;

/// Sums over rows to the first `outputs` outputs, which are cleared unless the kernel accumulates.
/// The team splits columns; add(row, count, column, n) adds `count` rows from `row` on to the
/// outputs, and is called in the order of rows.
template <class T, class Add>
void sum_rows(const KernelArgs& args, int64_t rows, int64_t cols, int outputs, const Add& add) {
  parallel(*args.team, cols, 4096 / static_cast<int64_t>(sizeof(T)),
           [&](int64_t begin, int64_t end) {
             if (!args.accumulate) {
               for (int o = 0; o < outputs; ++o) {
                 __builtin_memset(output<T>(args, o) + begin, 0,
                                  static_cast<std::size_t>(end - begin) * sizeof(T));
               }
             }
             for (int64_t row = 0; row < rows; row += kRowsAtOnce) {
               const int64_t count = rows - row < kRowsAtOnce ? rows - row : kRowsAtOnce;
               for_vectors<T>(begin, end, [&](int64_t c, auto n) { add(row, count, c, n); });
             }
           });
}

template <class T>
void run_layer_norm_backward_weight(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T* const stats = input<T>(args, 2);
  T* const dw = output<T>(args, 0);
  T* const db = output<T>(args, 1);
  sum_rows<T>(args, rows, cols, 2, [&](int64_t row, int64_t count, int64_t c, auto n) {
    Vec<T> w_sum{}, b_sum{};
    for (int64_t r = row; r < row + count; ++r) {
      const Vec<T> g = load(input<T>(args, 0) + r * cols + c, n);
      b_sum += g;
      w_sum += g * ((load(input<T>(args, 1) + r * cols + c, n) - stats[r * 2]) * stats[r * 2 + 1]);
    }
    store(dw + c, load(dw + c, n) + w_sum, n);
    store(db + c, load(db + c, n) + b_sum, n);
  });
}

template <class T>
void run_rms_norm_backward_weight(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T* const stats = input<T>(args, 2);
  T* const dw = output<T>(args, 0);
  sum_rows<T>(args, rows, cols, 1, [&](int64_t row, int64_t count, int64_t c, auto n) {
    Vec<T> sum{};
    for (int64_t r = row; r < row + count; ++r) {
      sum += load(input<T>(args, 0) + r * cols + c, n) *
             (load(input<T>(args, 1) + r * cols + c, n) * stats[r]);
    }
    store(dw + c, load(dw + c, n) + sum, n);
  });
}

/// The shape of rows of queries, keys and values, of which the heads of the first two are normed.
struct HeadRows {
  int64_t rows, heads, kv_heads, dim;
  explicit HeadRows(const KernelArgs& args)
      : rows(args.dims[0]), heads(args.dims[1]), kv_heads(args.dims[2]), dim(args.dims[3]) {}
  int64_t normed() const { return heads + kv_heads; }
  int64_t width() const { return (heads + 2 * kv_heads) * dim; }
};

template <class T>
void copy_values(const HeadRows& s, const T* from, T* to) {
  for_vectors<T>(s.normed() * s.dim, s.width(),
                 [&](int64_t i, auto n) { store(to + i, load(from + i, n), n); });
}

template <class T>
void run_head_norm_forward(const KernelArgs& args) {
  const HeadRows s(args);
  const T eps = static_cast<T>(args.scalars[0]);
  parallel(*args.team, s.rows, row_grain(s.width()), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const row = input<T>(args, 0) + r * s.width();
      T* const made = output<T>(args, 0) + r * s.width();
      copy_values(s, row, made);
      for (int64_t h = 0; h < s.normed(); ++h) {
        const T* const x = row + h * s.dim;
        const T* const w = input<T>(args, h < s.heads ? 1 : 2);
        Vec<T> squares{};
        for_vectors<T>(0, s.dim, [&](int64_t i, auto n) {
          const Vec<T> v = load(x + i, n);
          squares += v * v;
        });
        const T mean_square = sum_lanes<T>(squares) / static_cast<T>(s.dim);
        const T scale = T(1) / square_root(splat(mean_square + eps))[0];
        for_vectors<T>(0, s.dim, [&](int64_t i, auto n) {
          store(made + h * s.dim + i, load(x + i, n) * scale * load(w + i, n), n);
        });
        output<T>(args, 1)[r * s.normed() + h] = scale;
      }
    }
  });
}

template <class T>
void run_head_norm_backward_input(const KernelArgs& args) {
  const HeadRows s(args);
  parallel(*args.team, s.rows, row_grain(s.width()), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const d_row = input<T>(args, 0) + r * s.width();
      T* const made = output<T>(args, 0) + r * s.width();
      copy_values(s, d_row, made);
      for (int64_t h = 0; h < s.normed(); ++h) {
        const T* const dy = d_row + h * s.dim;
        const T* const x = input<T>(args, 1) + r * s.width() + h * s.dim;
        const T* const w = input<T>(args, h < s.heads ? 2 : 3);
        const T scale = input<T>(args, 4)[r * s.normed() + h];
        Vec<T> sum{};
        for_vectors<T>(0, s.dim, [&](int64_t i, auto n) {
          sum += load(dy + i, n) * load(w + i, n) * (load(x + i, n) * scale);
        });
        const T mean = sum_lanes<T>(sum) / static_cast<T>(s.dim);
        for_vectors<T>(0, s.dim, [&](int64_t i, auto n) {
          const Vec<T> xhat = load(x + i, n) * scale;
          store(made + h * s.dim + i, (load(dy + i, n) * load(w + i, n) - xhat * mean) * scale, n);
        });
      }
    }
  });
}

template <class T>
void run_head_norm_backward_weight(const KernelArgs& args) {
  const HeadRows s(args);
  const T* const stats = input<T>(args, 2);
  const auto add = [&](int64_t row, int64_t first, int64_t last, int64_t c, auto n) {
    Vec<T> sum{};
    for (int64_t h = first; h < last; ++h) {
      const int64_t at = row * s.width() + h * s.dim + c;
      sum += load(input<T>(args, 0) + at, n) *
             (load(input<T>(args, 1) + at, n) * stats[row * s.normed() + h]);
    }
    return sum;
  };
  sum_rows<T>(args, s.rows, s.dim, 2, [&](int64_t row, int64_t count, int64_t c, auto n) {
    Vec<T> queries{}, keys{};
    for (int64_t r = row; r < row + count; ++r) {
      queries += add(r, 0, s.heads, c, n);
      keys += add(r, s.heads, s.normed(), c, n);
    }
    for (int o = 0; o < 2; ++o) {
      T* const dw = output<T>(args, o) + c;
      store(dw, load(dw, n) + (o == 0 ? queries : keys), n);
    }
  });
}

template <class T>
void run_column_sum(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  T* const y = output<T>(args, 0);
  sum_rows<T>(args, rows, cols, 1, [&](int64_t row, int64_t count, int64_t c, auto n) {
    Vec<T> sum{};
    for (int64_t r = row; r < row + count; ++r) sum += load(input<T>(args, 0) + r * cols + c, n);
    store(y + c, load(y + c, n) + sum, n);
  });
}

}  // namespace
}  // namespace lockstep::cpu
