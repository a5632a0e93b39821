// Adafactor's second moments by rows and columns (core/ir/kernels/factors.cpp). Sums are in float64
// and in a fixed order.
#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = kThreads / kWarp;  // of a block, one for each warp

/// Which elements of a parameter a rank has: [begin(), end()), of which element e is the rank's
/// e + shift().
struct Part {
  int64_t n, first, count, rows, size, cols;
  const std::int32_t* shard;
  bool cols_divided;
  static Part of(const KernelCall& call, int shard) {
    const auto& d = call.kernel->dims;
    const auto at = static_cast<std::size_t>(shard);
    const bool given = at < call.kernel->in.size() && call.kernel->in[at].present();
    return {d[0],
            d[1],
            d[2],
            d[3],
            d[4],
            d[4] / d[2] / d[3],
            given ? input<std::int32_t>(call, shard) : nullptr,
            d[5] == 2};
  }
  __host__ __device__ int64_t all_rows() const { return count * rows; }
  __host__ __device__ int64_t all_cols() const { return count * cols; }
  __host__ __device__ int64_t most() const { return smaller(n, size); }
  __device__ int64_t shift() const { return first - (shard != nullptr ? shard[0] : 0) * n; }
  __device__ int64_t begin() const { return greater<int64_t>(0, -shift()); }
  __device__ int64_t end() const { return smaller(size, n - shift()); }
};

__device__ double factor_of(Ref coefficient) {
  return coefficient ? coefficient.get<double>(0) : 1.0;
}

/// Each warp takes a row, its threads every 32nd column. Calls add(element) for those of the rank.
template <class Add>
__device__ int64_t each_of_row(const Part& part, const Add& add) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / kWarp;
  if (row < part.all_rows()) {
    const int64_t a = greater(row * part.cols, part.begin());
    const int64_t b = smaller((row + 1) * part.cols, part.end());
    for (int64_t e = a + threadIdx.x % kWarp; e < b; e += kWarp) add(row, e);
  }
  return row;
}

__global__ void row_sums(Part part, Ref grad, Ref coefficient, Ref weight, Ref sums,
                         double* of_weights) {
  const int64_t shift = part.shift();
  const double coef = factor_of(coefficient);
  double squares = 0, weights = 0;
  const int64_t row = each_of_row(part, [&](int64_t, int64_t e) {
    const double g = coef < 0 ? 0 : coef * grad.get<double>(e + shift);
    const double w = weight.get<double>(e + shift);
    squares += g * g;
    weights += w * w;
  });
  squares = warp_sum(squares);
  weights = warp_sum(weights);
  if (row >= part.all_rows() || threadIdx.x % kWarp != 0) return;
  sums.set(row, squares);
  of_weights[row] = weights;
}

/// Each thread takes a column.
__global__ void col_sums(Part part, Ref grad, Ref coefficient, Ref sums) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= part.all_cols()) return;
  const int64_t shift = part.shift(), begin = part.begin(), end = part.end();
  const double coef = factor_of(coefficient);
  const int64_t top = c / part.cols * part.rows * part.cols + c % part.cols;
  double sum = 0;
  for (int64_t r = 0; r < part.rows && coef > 0; ++r) {
    const int64_t e = top + r * part.cols;
    if (e < begin || e >= end) continue;
    const double g = coef * grad.get<double>(e + shift);
    sum += g * g;
  }
  sums.set(c, sum);
}

/// Each block takes a matrix: factor × the sum of what its rows have.
__global__ void sum_rows(Part part, const double* of_rows, double factor, Ref to) {
  double sum = 0;
  for (int64_t r = threadIdx.x; r < part.rows; r += kThreads) {
    sum += of_rows[blockIdx.x * part.rows + r];
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) to.set(blockIdx.x, factor * sum);
}

__global__ void factor_moments(int64_t n, Ref sum, Ref coefficient, Ref f, StepContext context,
                               const StepContext* context_at, double factor, double decay_rate,
                               double eps) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n || factor_of(coefficient) < 0) return;  // a gradient may be not finite
  const auto step = context_at != nullptr ? context_at->step : context.step;
  const double fresh = pow(static_cast<double>(step + 1), decay_rate);
  f.set(i, (1 - fresh) * f.get<double>(i) + fresh * (factor * sum.get<double>(i) + eps));
}

/// Each block takes a matrix: what its rows and columns multiply gradients by, with the mean in the
/// rows'.
__global__ void inverse_roots(Part part, Ref row, Ref col, double* row_root, double* col_root) {
  const int64_t rows_at = blockIdx.x * part.rows, cols_at = blockIdx.x * part.cols;
  const int64_t length = part.cols_divided ? part.rows : part.cols;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < length; i += kThreads) {
    sum += part.cols_divided ? row.get<double>(rows_at + i) : col.get<double>(cols_at + i);
  }
  const double mean = block_sum<kThreads>(sum) / static_cast<double>(length);
  for (int64_t r = threadIdx.x; r < part.rows; r += kThreads) {
    row_root[rows_at + r] = sqrt(mean / row.get<double>(rows_at + r));
  }
  for (int64_t c = threadIdx.x; c < part.cols; c += kThreads) {
    col_root[cols_at + c] = 1 / sqrt(col.get<double>(cols_at + c));
  }
}

__global__ void squares_of_rows(Part part, Ref grad, Ref coefficient, const double* row_root,
                                const double* col_root, double* squares) {
  const int64_t shift = part.shift();
  const double coef = factor_of(coefficient);
  double sum = 0;
  const int64_t row = each_of_row(part, [&](int64_t r, int64_t e) {
    const int64_t c = r / part.rows * part.cols + e % part.cols;
    const double u = coef < 0 ? 0 : coef * grad.get<double>(e + shift) * row_root[r] * col_root[c];
    sum += u * u;
  });
  sum = warp_sum(sum);
  if (row < part.all_rows() && threadIdx.x % kWarp == 0) squares[row] = sum;
}

struct Step {
  double eps, clip, beta1, decay;
  bool relative;
  StepContext context;
  const StepContext* context_at;
};

/// Each thread takes an element.
template <class T>
__global__ void adafactor(Part part, Ref grad, Ref coefficient, Ref scale, Ref square, T* weight,
                          Ref moment, const double* row_root, const double* col_root, Step step) {
  using A = Acc<T>;
  const int64_t e = part.begin() + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const double coef = factor_of(coefficient);
  if (e >= part.end() || coef < 0) return;  // a gradient is not finite
  const int64_t i = e + part.shift(), r = e / part.cols, m = r / part.rows;
  const StepContext& now = step.context_at != nullptr ? *step.context_at : step.context;
  const double most = 1 / sqrt(static_cast<double>(now.step + 1));
  const double rate = step.relative ? smaller(now.lr, most) : now.lr;
  const double a = step.eps == 0 ? rate : rate * greater(step.eps, sqrt(scale.get<double>(m)));
  const double large = greater(1.0, sqrt(square.get<double>(m)) / step.clip);
  const double u =
      coef * grad.get<double>(i) * row_root[r] * col_root[m * part.cols + e % part.cols];
  auto s = static_cast<A>(a * u / large);
  if (moment) {
    s = static_cast<A>(step.beta1) * moment.get<A>(i) + static_cast<A>(1 - step.beta1) * s;
    moment.set(i, s);
  }
  put(weight[i], static_cast<A>(value(weight[i])) * static_cast<A>(1 - step.decay * a) - s);
}

unsigned blocks_of_rows(const Part& part) { return blocks_of(part.all_rows(), kRows); }

void run_factor_sums(const KernelCall& call, Queue& queue) {
  const Part part = Part::of(call, 3);
  auto* const of_weights = reinterpret_cast<double*>(call.scratch);
  const Ref grad = input_ref(call, 0), coefficient = input_ref(call, 1);
  queue.launch({blocks_of_rows(part)}, {kThreads}, 0, row_sums, part, grad, coefficient,
               input_ref(call, 2), output_ref(call, 0), of_weights);
  queue.launch({blocks_of(part.all_cols(), kThreads)}, {kThreads}, 0, col_sums, part, grad,
               coefficient, output_ref(call, 1));
  queue.launch({static_cast<unsigned>(part.count)}, {kThreads}, 0, sum_rows, part, of_weights,
               call.kernel->scalars[0], output_ref(call, 2));
}

void run_factor_moments(const KernelCall& call, Queue& queue) {
  const auto& scalars = call.kernel->scalars;
  const int64_t n = call.kernel->dims[0];
  queue.launch({blocks_of(n, kThreads)}, {kThreads}, 0, factor_moments, n, input_ref(call, 0),
               input_ref(call, 1), output_ref(call, 0), call.context, call.context_at, scalars[0],
               scalars[1], scalars[2]);
}

/// The roots of rows, those of columns, and room for one value of each row.
struct Roots {
  double *row, *col, *squares;
  static Roots of(const KernelCall& call, const Part& part, Queue& queue) {
    auto* const row = reinterpret_cast<double*>(call.scratch);
    const Roots roots{row, row + part.all_rows(), row + part.all_rows() + part.all_cols()};
    queue.launch({static_cast<unsigned>(part.count)}, {kThreads}, 0, inverse_roots, part,
                 input_ref(call, 2), input_ref(call, 3), roots.row, roots.col);
    return roots;
  }
};

void run_factored_squares(const KernelCall& call, Queue& queue) {
  const Part part = Part::of(call, 4);
  const Roots roots = Roots::of(call, part, queue);
  queue.launch({blocks_of_rows(part)}, {kThreads}, 0, squares_of_rows, part, input_ref(call, 0),
               input_ref(call, 1), roots.row, roots.col, roots.squares);
  queue.launch({static_cast<unsigned>(part.count)}, {kThreads}, 0, sum_rows, part, roots.squares,
               call.kernel->scalars[0], output_ref(call, 0));
}

void run_adafactor(const KernelCall& call, Queue& queue) {
  const Part part = Part::of(call, 6);
  const Roots roots = Roots::of(call, part, queue);
  const auto& scalars = call.kernel->scalars;
  const Step step{scalars[0],   scalars[1],     scalars[2], scalars[3], call.kernel->dims[7] != 0,
                  call.context, call.context_at};
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({blocks_of(part.most(), kThreads)}, {kThreads}, 0, adafactor<T>, part,
                 input_ref(call, 0), input_ref(call, 1), input_ref(call, 4), input_ref(call, 5),
                 output<T>(call, 0), output_ref(call, 1), roots.row, roots.col, step);
  });
}

std::int64_t sums_bytes(const Kernel& kernel) { return 8 * kernel.dims[2] * kernel.dims[3]; }
std::int64_t roots_bytes(const Kernel& kernel) {
  return 8 * (2 * kernel.dims[2] * kernel.dims[3] + kernel.dims[4] / kernel.dims[3]);
}

}  // namespace

void add_factors(Registry& rows) {
  rows[KernelKind::FactorSums] = {run_factor_sums, sums_bytes};
  rows[KernelKind::FactorMoments] = {run_factor_moments};
  rows[KernelKind::FactoredSquares] = {run_factored_squares, roots_bytes};
  rows[KernelKind::Adafactor] = {run_adafactor, roots_bytes};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
