// Batch norm (Ioffe and Szegedy 2015) over columns: statistics, of one rank or combined over ranks;
// forward; backward for input and for weight.
#include "backends/cuda/kernels/columns.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;

// ---------------------------------------------------------------- sums over rows

/// x, or its squared distance from the mean.
template <class T, bool kSquared>
struct MomentTerm {
  static constexpr int kOutputs = 1;
  const T* x;
  Ref mean;
  int64_t cols;
  template <int N>
  __device__ Values<Acc<T>, N> column(int64_t c) const {
    Values<Acc<T>, N> centre{};
    if constexpr (kSquared) {
      for (int j = 0; j < N; ++j) centre[j] = mean.get<Acc<T>>(c + j);
    }
    return centre;
  }
  template <int N, class A>
  __device__ void add(int64_t row, int64_t c, const Values<A, N>& centre,
                      A (&sums)[kOutputs][N]) const {
    const auto v = load<N>(x + row * cols + c);
    for (int j = 0; j < N; ++j) {
      const A d = v[j] - centre[j];
      sums[0][j] += kSquared ? d * d : d;
    }
  }
};

struct Share {
  double share;
  template <class A>
  __device__ A get(int, int64_t) const {
    return static_cast<A>(share);
  }
};

/// dy, and dy times x less its mean.
template <class T>
struct GradientTerm {
  static constexpr int kOutputs = 2;
  const T *dy, *x;
  Ref mean;
  int64_t cols;
  template <int N>
  __device__ Values<Acc<T>, N> column(int64_t c) const {
    Values<Acc<T>, N> centre;
    for (int j = 0; j < N; ++j) centre[j] = mean.get<Acc<T>>(c + j);
    return centre;
  }
  template <int N, class A>
  __device__ void add(int64_t row, int64_t c, const Values<A, N>& centre,
                      A (&sums)[kOutputs][N]) const {
    const auto d = load<N>(dy + row * cols + c), v = load<N>(x + row * cols + c);
    for (int j = 0; j < N; ++j) {
      sums[0][j] += d[j];
      sums[1][j] += d[j] * (v[j] - centre[j]);
    }
  }
};

/// The factor of the second sum, which turns x less its mean into xhat.
struct InverseDeviation {
  Ref variance;
  double eps;
  template <class A>
  __device__ A get(int output, int64_t c) const {
    return output == 0 ? A(1) : 1 / square_root(variance.get<A>(c) + static_cast<A>(eps));
  }
};

// ---------------------------------------------------------------- along columns

/// Calls f(column) for every column.
template <class F>
__global__ void for_columns(F f, int64_t cols) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c < cols) f(c);
}

/// For parts of equal size, the variance of all is the mean of the variances plus the variance of
/// the means (Chan, Golub and LeVeque 1979).
template <class A>
struct Combine {
  Ref each, stats;
  int64_t parts, cols;
  __device__ void operator()(int64_t c) const {
    const A share = A(1) / static_cast<A>(parts);
    A mean = 0, variance = 0;
    for (int64_t p = 0; p < parts; ++p) mean += each.get<A>(p * 2 * cols + c);
    mean *= share;
    for (int64_t p = 0; p < parts; ++p) {
      const A d = each.get<A>(p * 2 * cols + c) - mean;
      variance += each.get<A>((p * 2 + 1) * cols + c) + d * d;
    }
    stats.set(c, mean);
    stats.set(cols + c, variance * share);
  }
};

template <class A>
struct Running {
  Ref stats, running;
  A momentum, correction;
  int64_t cols;
  __device__ void operator()(int64_t c) const {
    const A mean = running.get<A>(c), variance = running.get<A>(cols + c);
    running.set(c, mean + momentum * (stats.get<A>(c) - mean));
    running.set(cols + c, variance + momentum * (stats.get<A>(cols + c) * correction - variance));
  }
};

template <class A>
struct WeightGradient {
  Ref sums, dw, db;
  int64_t cols;
  bool accumulate;
  __device__ void operator()(int64_t c) const {
    const A b = sums.get<A>(c), w = sums.get<A>(cols + c);
    db.set(c, accumulate ? db.get<A>(c) + b : b);
    dw.set(c, accumulate ? dw.get<A>(c) + w : w);
  }
};

template <template <class> class F, class... Arguments>
void launch_columns(const KernelCall& call, Queue& queue, int64_t cols, Arguments... arguments) {
  const auto launch = [&](auto a) {
    using A = decltype(a);
    const F<A> f{arguments...};
    queue.launch({blocks_of(cols, kThreads)}, {kThreads}, 0, for_columns<F<A>>, f, cols);
  };
  call.kernel->dtype == DType::F64 ? launch(double{}) : launch(float{});
}

// ---------------------------------------------------------------- along rows

constexpr int64_t kRowsOfThread = 16;

/// Calls f.column<N>(c) once for N columns, and f.row<N>(row, c, its result) for every row of them.
template <int N, class F>
__global__ void for_rows(F f, int64_t rows, int64_t cols) {
  const int64_t c = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  if (c >= cols) return;
  const auto common = f.template column<N>(c);
  const int64_t of_block = kRowsOfThread * blockDim.y;
  const int64_t first = blockIdx.x * of_block, last = smaller(rows, first + of_block);
  for (int64_t r = first + threadIdx.y; r < last; r += blockDim.y) {
    f.template row<N>(r, c, common);
  }
}

template <class A, int N>
struct Affine {
  Values<A, N> centre, scale, shift, slope;
};

template <class T>
struct Normalize {
  using A = Acc<T>;
  const T *x, *w, *b, *resid;
  T* y;
  Ref mean, variance;
  A eps;
  int64_t cols;
  template <int N>
  __device__ Affine<A, N> column(int64_t c) const {
    Affine<A, N> common;
    common.scale = load<N>(w + c);
    common.shift = load<N>(b + c);
    for (int j = 0; j < N; ++j) {
      common.centre[j] = mean.get<A>(c + j);
      common.scale[j] *= 1 / square_root(variance.get<A>(c + j) + eps);
    }
    return common;
  }
  template <int N>
  __device__ void row(int64_t r, int64_t c, const Affine<A, N>& common) const {
    auto v = load<N>(x + r * cols + c);
    for (int j = 0; j < N; ++j) {
      v[j] = (v[j] - common.centre[j]) * common.scale[j] + common.shift[j];
    }
    if (resid != nullptr) {
      const auto more = load<N>(resid + r * cols + c);
      for (int j = 0; j < N; ++j) v[j] += more[j];
    }
    store<N>(y + r * cols + c, v);
  }
};

template <class T>
struct InputGradient {
  using A = Acc<T>;
  const T *dy, *x, *w;
  T* dx;
  Ref mean, variance, sum, sum_xhat;
  A eps, share;
  int64_t cols;
  template <int N>
  __device__ Affine<A, N> column(int64_t c) const {
    Affine<A, N> common;
    const auto weight = load<N>(w + c);
    for (int j = 0; j < N; ++j) {
      const A deviation = 1 / square_root(variance.get<A>(c + j) + eps);
      common.centre[j] = mean.get<A>(c + j);
      common.scale[j] = weight[j] * deviation;
      common.shift[j] = sum.get<A>(c + j) * share;
      common.slope[j] = sum_xhat.get<A>(c + j) * share * deviation;
    }
    return common;
  }
  template <int N>
  __device__ void row(int64_t r, int64_t c, const Affine<A, N>& common) const {
    auto d = load<N>(dy + r * cols + c);
    const auto v = load<N>(x + r * cols + c);
    for (int j = 0; j < N; ++j) {
      d[j] =
          common.scale[j] * (d[j] - common.shift[j] - (v[j] - common.centre[j]) * common.slope[j]);
    }
    store<N>(dx + r * cols + c, d);
  }
};

template <class T, class F>
void launch_rows(Queue& queue, const F& f, int64_t rows, int64_t cols,
                 std::initializer_list<const void*> addresses) {
  for_width<T>(cols, addresses, [&](auto w) {
    constexpr int N = decltype(w)::kValue;
    const unsigned lanes = column_lanes(cols / N), others = kColumnThreads / lanes;
    queue.launch({blocks_of(rows, kRowsOfThread * others), blocks_of(cols, int64_t{lanes} * N)},
                 {lanes, others}, 0, for_rows<N, F>, f, rows, cols);
  });
}

// ---------------------------------------------------------------- kernels

void run_statistics(const KernelCall& call, Queue& queue) {
  const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
  const Ref mean = output_ref(call, 0), variance = behind(mean, cols);
  const Share share{1 / static_cast<double>(rows)};
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const T* const x = input<T>(call, 0);
    sum_columns<T>(call, queue, MomentTerm<T, false>{x, {}, cols}, rows, cols, {x}, mean, {},
                   share);
    sum_columns<T>(call, queue, MomentTerm<T, true>{x, mean, cols}, rows, cols, {x}, variance, {},
                   share);
  });
}

void run_combine(const KernelCall& call, Queue& queue) {
  const int64_t parts = call.kernel->dims[0], cols = call.kernel->dims[1];
  launch_columns<Combine>(call, queue, cols, input_ref(call, 0), output_ref(call, 0), parts, cols);
}

void run_running(const KernelCall& call, Queue& queue) {
  const int64_t cols = call.kernel->dims[0];
  const auto& scalars = call.kernel->scalars;
  const auto launch = [&](auto a) {
    using A = decltype(a);
    const Running<A> f{input_ref(call, 0), output_ref(call, 0), static_cast<A>(scalars[0]),
                       static_cast<A>(scalars[1]), cols};
    queue.launch({blocks_of(cols, kThreads)}, {kThreads}, 0, for_columns<Running<A>>, f, cols);
  };
  call.kernel->dtype == DType::F64 ? launch(double{}) : launch(float{});
}

void run_forward(const KernelCall& call, Queue& queue) {
  const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
  const Ref mean = input_ref(call, 3);
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const Normalize<T> f{input<T>(call, 0),
                         input<T>(call, 1),
                         input<T>(call, 2),
                         input<T>(call, 4),
                         output<T>(call, 0),
                         mean,
                         behind(mean, cols),
                         static_cast<Acc<T>>(call.kernel->scalars[0]),
                         cols};
    launch_rows<T>(queue, f, rows, cols, {f.x, f.w, f.b, f.resid, f.y});
  });
}

void run_backward_sums(const KernelCall& call, Queue& queue) {
  const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
  const Ref mean = input_ref(call, 2), sums = output_ref(call, 0);
  const InverseDeviation factor{behind(mean, cols), call.kernel->scalars[0]};
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const GradientTerm<T> term{input<T>(call, 0), input<T>(call, 1), mean, cols};
    sum_columns<T>(call, queue, term, rows, cols, {term.dy, term.x}, sums, behind(sums, cols),
                   factor);
  });
}

void run_backward_input(const KernelCall& call, Queue& queue) {
  const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
  const Ref mean = input_ref(call, 3), sums = input_ref(call, 4);
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const InputGradient<T> f{input<T>(call, 0),
                             input<T>(call, 1),
                             input<T>(call, 2),
                             output<T>(call, 0),
                             mean,
                             behind(mean, cols),
                             sums,
                             behind(sums, cols),
                             static_cast<Acc<T>>(call.kernel->scalars[0]),
                             static_cast<Acc<T>>(1 / call.kernel->scalars[1]),
                             cols};
    launch_rows<T>(queue, f, rows, cols, {f.dy, f.x, f.w, f.dx});
  });
}

void run_backward_weight(const KernelCall& call, Queue& queue) {
  const int64_t cols = call.kernel->dims[0];
  launch_columns<WeightGradient>(call, queue, cols, input_ref(call, 0), output_ref(call, 0),
                                 output_ref(call, 1), cols, call.kernel->accumulate);
}

template <int kOutputs>
std::int64_t scratch(const Kernel& kernel) {
  return column_scratch(kernel, kernel.dims[0], kernel.dims[1], kOutputs);
}

}  // namespace

void add_batch_norm(Registry& rows) {
  rows[KernelKind::BatchNormStatistics] = {run_statistics, scratch<1>};
  rows[KernelKind::BatchNormCombine] = {run_combine};
  rows[KernelKind::BatchNormRunning] = {run_running};
  rows[KernelKind::BatchNormForward] = {run_forward};
  rows[KernelKind::BatchNormBackwardSums] = {run_backward_sums, scratch<2>};
  rows[KernelKind::BatchNormBackwardInput] = {run_backward_input};
  rows[KernelKind::BatchNormBackwardWeight] = {run_backward_weight};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
