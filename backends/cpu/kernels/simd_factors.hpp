// Adafactor's second moments by rows and columns (core/ir/kernels/factors.cpp). Sums are in float64
// and in a fixed order. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_vec.hpp"

namespace lockstep::cpu {
namespace {

constexpr int64_t kFactorGrain = 1 << 14;  // elements; they take some microseconds

/// Which elements of a parameter a rank has: [begin, end), of which element e is the rank's e +
/// shift.
struct FactoredPart {
  int64_t count, rows, cols, begin, end, shift;
  bool cols_divided;
  FactoredPart(const KernelArgs& args, int shard_operand) {
    const int64_t n = args.dims[0], first = args.dims[1], size = args.dims[4];
    const auto* const shard = input<std::int32_t>(args, shard_operand);
    shift = first - (shard ? shard[0] : 0) * n;
    count = args.dims[2];
    rows = args.dims[3];
    cols = size / count / rows;
    begin = shift < 0 ? -shift : 0;
    end = n - shift < size ? n - shift : size;
    cols_divided = args.dims[5] == 2;
  }
  int64_t all_rows() const { return count * rows; }
  int64_t grain() const { return kFactorGrain / cols + 1; }
  /// Calls body(row, first element, end) for rows [from, to); the range may be empty.
  template <class Body>
  void each_row(int64_t from, int64_t to, const Body& body) const {
    for (int64_t r = from; r < to; ++r) {
      const int64_t a = r * cols > begin ? r * cols : begin;
      const int64_t b = (r + 1) * cols < end ? (r + 1) * cols : end;
      body(r, a, b > a ? b : a);
    }
  }
};

inline double* doubles(Scratch slot, int64_t count) {
  return static_cast<double*>(scratch(slot, static_cast<std::size_t>(count) * sizeof(double)));
}

/// Of each matrix, factor × the sum of what its rows have.
inline void write_sums(const FactoredPart& part, const double* of_rows, double factor,
                       std::byte* to, bool f64) {
  for (int64_t m = 0; m < part.count; ++m) {
    double sum = 0;
    for (int64_t r = 0; r < part.rows; ++r) sum += of_rows[m * part.rows + r];
    write_scalar(to, f64, m, factor * sum);
  }
}

template <class T>
void run_factor_sums(const KernelArgs& args) {
  const FactoredPart part(args, 3);
  const double coef = read_factor(args, 1), factor = coef < 0 ? 0 : coef;
  const T* const grad = input<T>(args, 0) + part.shift;
  const T* const weight = input<T>(args, 2) + part.shift;
  double* const weights = doubles(Scratch::Rows, part.all_rows());
  parallel(*args.team, part.all_rows(), part.grain(), [&](int64_t from, int64_t to) {
    part.each_row(from, to, [&](int64_t row, int64_t a, int64_t b) {
      double squares = 0, of_weights = 0;
      for (int64_t e = a; e < b; ++e) {
        const double g = factor == 0 ? 0 : factor * static_cast<double>(grad[e]);
        const double w = static_cast<double>(weight[e]);
        squares += g * g;
        of_weights += w * w;
      }
      write_scalar(args.out[0], args.out_f64[0], row, squares);
      weights[row] = of_weights;
    });
  });
  write_sums(part, weights, args.scalars[0], args.out[2], args.out_f64[2]);
  double* const columns = doubles(Scratch::PackA, part.count * part.cols);
  parallel(*args.team, part.count * part.cols, kFactorGrain / part.rows + 1,
           [&](int64_t from, int64_t to) {
             for (int64_t c = from; c < to; ++c) columns[c] = 0;
             for (int64_t m = from / part.cols; m * part.cols < to; ++m) {
               const int64_t c0 = from - m * part.cols > 0 ? from - m * part.cols : 0;
               const int64_t c1 = to - m * part.cols < part.cols ? to - m * part.cols : part.cols;
               double* const sums = columns + m * part.cols;
               part.each_row(m * part.rows, (m + 1) * part.rows,
                             [&](int64_t row, int64_t a, int64_t b) {
                               a = row * part.cols + c0 > a ? row * part.cols + c0 : a;
                               b = row * part.cols + c1 < b ? row * part.cols + c1 : b;
                               for (int64_t e = a; e < b && factor != 0; ++e) {
                                 const double g = factor * static_cast<double>(grad[e]);
                                 sums[e - row * part.cols] += g * g;
                               }
                             });
             }
             for (int64_t c = from; c < to; ++c) {
               write_scalar(args.out[1], args.out_f64[1], c, columns[c]);
             }
           });
}

template <class T>
void run_factor_moments(const KernelArgs& args) {
  if (read_factor(args, 1) < 0) return;  // a gradient is not finite
  const double fresh = __builtin_pow(static_cast<double>(args.step + 1), args.scalars[1]);
  const double factor = args.scalars[0], eps = args.scalars[2];
  parallel(*args.team, args.dims[0], kFactorGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double sum = read_scalar(args.in[0], args.in_f64[0], i);
      const double old = read_scalar(args.out[0], args.out_f64[0], i);
      write_scalar(args.out[0], args.out_f64[0], i,
                   (1 - fresh) * old + fresh * (factor * sum + eps));
    }
  });
}

/// What gradients are multiplied by: row [r] column [c], with the mean in the row's.
struct InverseRoots {
  double *row, *col;
  InverseRoots(const KernelArgs& args, const FactoredPart& part)
      : row(doubles(Scratch::Rows, part.all_rows())),
        col(doubles(Scratch::PackA, part.count * part.cols)) {
    const auto value = [&](int operand, int64_t i) {
      return read_scalar(args.in[operand], args.in_f64[operand], i);
    };
    for (int64_t m = 0; m < part.count; ++m) {
      const int operand = part.cols_divided ? 2 : 3;
      const int64_t length = part.cols_divided ? part.rows : part.cols;
      double mean = 0;
      for (int64_t i = 0; i < length; ++i) mean += value(operand, m * length + i);
      mean /= static_cast<double>(length);
      for (int64_t r = m * part.rows; r < (m + 1) * part.rows; ++r) {
        row[r] = __builtin_sqrt(mean / value(2, r));
      }
      for (int64_t c = m * part.cols; c < (m + 1) * part.cols; ++c) {
        col[c] = 1 / __builtin_sqrt(value(3, c));
      }
    }
  }
};

template <class T>
void run_factored_squares(const KernelArgs& args) {
  const FactoredPart part(args, 4);
  const double coef = read_factor(args, 1);
  if (coef < 0) {  // a gradient is not finite
    for (int64_t m = 0; m < part.count; ++m) write_scalar(args.out[0], args.out_f64[0], m, 0);
    return;
  }
  const T* const grad = input<T>(args, 0) + part.shift;
  const InverseRoots root(args, part);
  double* const squares = doubles(Scratch::PackB, part.all_rows());
  parallel(*args.team, part.all_rows(), part.grain(), [&](int64_t from, int64_t to) {
    part.each_row(from, to, [&](int64_t row, int64_t a, int64_t b) {
      const double* const col = root.col + row / part.rows * part.cols - row * part.cols;
      const double of_row = coef * root.row[row];
      double sum = 0;
      for (int64_t e = a; e < b; ++e) {
        const double u = static_cast<double>(grad[e]) * of_row * col[e];
        sum += u * u;
      }
      squares[row] = sum;
    });
  });
  write_sums(part, squares, args.scalars[0], args.out[0], args.out_f64[0]);
}

template <class T>
void run_adafactor(const KernelArgs& args) {
  const FactoredPart part(args, 6);
  const double coef = read_factor(args, 1);
  if (coef < 0) return;  // a gradient is not finite
  const double eps = args.scalars[0], clip = args.scalars[1], decay = args.scalars[3];
  const T beta = static_cast<T>(args.scalars[2]), fresh = static_cast<T>(1 - args.scalars[2]);
  const double most = 1 / __builtin_sqrt(static_cast<double>(args.step + 1));
  const double rate = args.dims[7] != 0 && most < args.lr ? most : args.lr;
  const T* const grad = input<T>(args, 0) + part.shift;
  T* const weight = output<T>(args, 0) + part.shift;
  T* const first = args.out[1] ? output<T>(args, 1) + part.shift : nullptr;
  const InverseRoots root(args, part);
  parallel(*args.team, part.all_rows(), part.grain(), [&](int64_t from, int64_t to) {
    part.each_row(from, to, [&](int64_t row, int64_t a, int64_t b) {
      const int64_t m = row / part.rows;
      const double scale = __builtin_sqrt(read_scalar(args.in[4], args.in_f64[4], m));
      const double size = __builtin_sqrt(read_scalar(args.in[5], args.in_f64[5], m)) / clip;
      const double step = eps == 0 ? rate : rate * (scale > eps ? scale : eps);
      const double* const col = root.col + m * part.cols - row * part.cols;
      const double of_row = step * coef * root.row[row] / (size > 1 ? size : 1);
      const T keep = static_cast<T>(1 - decay * step);
      for (int64_t e = a; e < b; ++e) {
        T s = static_cast<T>(static_cast<double>(grad[e]) * of_row * col[e]);
        if (first != nullptr) s = first[e] = beta * first[e] + fresh * s;
        weight[e] = weight[e] * keep - s;
      }
    });
  });
}

}  // namespace
}  // namespace lockstep::cpu
