// LayerNorm, RMSNorm and norms of heads. A warp takes a row for what goes along rows; gradients of
// weights are column sums.
#include "backends/cuda/kernels/columns.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kRows = 8;  // of a block, one for each warp

template <class T>
struct Norm {
  int64_t rows, cols;
  const T *dy, *x, *w, *b, *resid;
  T* out;  // y, or dx
  Acc<T>* stats;
  Acc<T> eps;
};

template <class T, int N, bool kCentered>
__global__ void norm_forward(Norm<T> n) {
  using A = Acc<T>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.y;
  if (row >= n.rows) return;
  const T* const x = n.x + row * n.cols;
  const auto cols = static_cast<A>(n.cols);
  const int64_t first = threadIdx.x * N, step = kWarp * N;
  A mean = 0;
  if constexpr (kCentered) {
    for (int64_t c = first; c < n.cols; c += step) {
      const auto v = load<N>(x + c);
      for (int j = 0; j < N; ++j) mean += v[j];
    }
    mean = warp_sum(mean) / cols;
  }
  A squares = 0;
  for (int64_t c = first; c < n.cols; c += step) {
    const auto v = load<N>(x + c);
    for (int j = 0; j < N; ++j) squares += (v[j] - mean) * (v[j] - mean);
  }
  const A scale = 1 / square_root(warp_sum(squares) / cols + n.eps);
  for (int64_t c = first; c < n.cols; c += step) {
    auto v = load<N>(x + c);
    const auto w = load<N>(n.w + c);
    for (int j = 0; j < N; ++j) v[j] = (v[j] - mean) * scale * w[j];
    if constexpr (kCentered) {
      const auto b = load<N>(n.b + c);
      for (int j = 0; j < N; ++j) v[j] += b[j];
    }
    store<N>(n.out + row * n.cols + c, v);
  }
  if (threadIdx.x != 0) return;
  if constexpr (kCentered) {
    n.stats[row * 2] = mean;
    n.stats[row * 2 + 1] = scale;
  } else {
    n.stats[row] = scale;
  }
}

template <class T, int N, bool kCentered>
__global__ void norm_backward_input(Norm<T> n) {
  using A = Acc<T>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.y;
  if (row >= n.rows) return;
  const T* const x = n.x + row * n.cols;
  const T* const dy = n.dy + row * n.cols;
  const A mean = kCentered ? n.stats[row * 2] : A(0);
  const A scale = n.stats[kCentered ? row * 2 + 1 : row];
  const int64_t first = threadIdx.x * N, step = kWarp * N;
  A sum = 0, sum_xhat = 0;
  for (int64_t c = first; c < n.cols; c += step) {
    const auto v = load<N>(x + c), d = load<N>(dy + c), w = load<N>(n.w + c);
    for (int j = 0; j < N; ++j) {
      const A g = d[j] * w[j];
      sum += g;
      sum_xhat += g * ((v[j] - mean) * scale);
    }
  }
  const A g_mean = kCentered ? warp_sum(sum) / static_cast<A>(n.cols) : A(0);
  const A g_xhat_mean = warp_sum(sum_xhat) / static_cast<A>(n.cols);
  for (int64_t c = first; c < n.cols; c += step) {
    const auto v = load<N>(x + c), w = load<N>(n.w + c);
    auto d = load<N>(dy + c);
    for (int j = 0; j < N; ++j) {
      d[j] = (d[j] * w[j] - g_mean - (v[j] - mean) * scale * g_xhat_mean) * scale;
    }
    if (n.resid != nullptr) {
      const auto resid = load<N>(n.resid + row * n.cols + c);
      for (int j = 0; j < N; ++j) d[j] += resid[j];
    }
    store<N>(n.out + row * n.cols + c, d);
  }
}

/// The sums for dw, and for db of LayerNorm.
template <class T, bool kCentered>
struct WeightTerm {
  static constexpr int kOutputs = kCentered ? 2 : 1;
  const T *dy, *x;
  const Acc<T>* stats;
  int64_t cols;
  template <int N>
  __device__ Nothing column(int64_t) const {
    return {};
  }
  template <int N, class A>
  __device__ void add(int64_t row, int64_t c, Nothing, A (&sums)[kOutputs][N]) const {
    const A mean = kCentered ? stats[row * 2] : A(0);
    const A scale = stats[kCentered ? row * 2 + 1 : row];
    const auto d = load<N>(dy + row * cols + c), v = load<N>(x + row * cols + c);
    for (int j = 0; j < N; ++j) {
      sums[0][j] += d[j] * ((v[j] - mean) * scale);
      if constexpr (kCentered) sums[1][j] += d[j];
    }
  }
};

/// Rows of queries, keys and values, of which the heads of the first two are normed. A warp takes a
/// head.
template <class T>
struct HeadNorm {
  int64_t rows, heads, kv_heads, dim;
  const T *dy = nullptr, *x = nullptr, *wq = nullptr, *wk = nullptr;
  T* out = nullptr;  // y, or dx
  Acc<T>* stats = nullptr;
  Acc<T> eps = 0;
  __host__ __device__ int64_t normed() const { return heads + kv_heads; }
  __host__ __device__ int64_t in_row() const { return heads + 2 * kv_heads; }
  __host__ __device__ int64_t all() const { return rows * in_row(); }
  /// The weight of the `head`th head of a row.
  __device__ const T* weight(int64_t head) const { return head < heads ? wq : wk; }
};

/// The head that a thread's warp takes, and the columns of it that the thread takes, N at a time.
template <class T, int N>
struct WarpHead {
  int64_t at, row, head, dim;
  __device__ explicit WarpHead(const HeadNorm<T>& n)
      : at(static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.y),
        row(at / n.in_row()),
        head(at % n.in_row()),
        dim(n.dim) {}
  template <class Body>
  __device__ void columns(const Body& body) const {
    for (int64_t c = threadIdx.x * N; c < dim; c += kWarp * N) body(c);
  }
  /// A head of values is not normed: its gradient, or the value itself, passes through.
  __device__ void pass(const T* from, T* to) const {
    columns([&](int64_t c) { store<N>(to + c, load<N>(from + c)); });
  }
};

template <class T, int N>
__global__ void head_norm_forward(HeadNorm<T> n) {
  using A = Acc<T>;
  const WarpHead<T, N> warp(n);
  if (warp.at >= n.all()) return;
  const T* const x = n.x + warp.at * n.dim;
  T* const y = n.out + warp.at * n.dim;
  if (warp.head >= n.normed()) return warp.pass(x, y);
  A squares = 0;
  warp.columns([&](int64_t c) {
    const auto v = load<N>(x + c);
    for (int j = 0; j < N; ++j) squares += v[j] * v[j];
  });
  const A scale = 1 / square_root(warp_sum(squares) / static_cast<A>(n.dim) + n.eps);
  const T* const weight = n.weight(warp.head);
  warp.columns([&](int64_t c) {
    auto v = load<N>(x + c);
    const auto w = load<N>(weight + c);
    for (int j = 0; j < N; ++j) v[j] = v[j] * scale * w[j];
    store<N>(y + c, v);
  });
  if (threadIdx.x == 0) n.stats[warp.row * n.normed() + warp.head] = scale;
}

template <class T, int N>
__global__ void head_norm_backward_input(HeadNorm<T> n) {
  using A = Acc<T>;
  const WarpHead<T, N> warp(n);
  if (warp.at >= n.all()) return;
  const T* const x = n.x + warp.at * n.dim;
  const T* const dy = n.dy + warp.at * n.dim;
  T* const dx = n.out + warp.at * n.dim;
  if (warp.head >= n.normed()) return warp.pass(dy, dx);
  const A scale = n.stats[warp.row * n.normed() + warp.head];
  const T* const weight = n.weight(warp.head);
  A sum = 0;
  warp.columns([&](int64_t c) {
    const auto v = load<N>(x + c), d = load<N>(dy + c), w = load<N>(weight + c);
    for (int j = 0; j < N; ++j) sum += d[j] * w[j] * (v[j] * scale);
  });
  const A mean = warp_sum(sum) / static_cast<A>(n.dim);
  warp.columns([&](int64_t c) {
    const auto v = load<N>(x + c), w = load<N>(weight + c);
    auto d = load<N>(dy + c);
    for (int j = 0; j < N; ++j) d[j] = (d[j] * w[j] - v[j] * scale * mean) * scale;
    store<N>(dx + c, d);
  });
}

/// The sums for dwq and dwk. A row here is a normed head of a row.
template <class T>
struct HeadWeightTerm {
  static constexpr int kOutputs = 2;
  const T *dy, *x;
  const Acc<T>* stats;
  int64_t heads, kv_heads, dim;
  template <int N>
  __device__ Nothing column(int64_t) const {
    return {};
  }
  template <int N, class A>
  __device__ void add(int64_t head, int64_t c, Nothing, A (&sums)[kOutputs][N]) const {
    const int64_t normed = heads + kv_heads, h = head % normed;
    const int64_t at = (head / normed * (normed + kv_heads) + h) * dim + c;
    const A scale = stats[head];
    const auto d = load<N>(dy + at), v = load<N>(x + at);
    const A of_query = h < heads ? scale : A(0), of_key = h < heads ? A(0) : scale;
    for (int j = 0; j < N; ++j) {
      sums[0][j] += d[j] * (v[j] * of_query);
      sums[1][j] += d[j] * (v[j] * of_key);
    }
  }
};

/// What a call says of its heads; where its values are is still to be set.
template <class T>
HeadNorm<T> heads_of(const Kernel& kernel) {
  const auto& d = kernel.dims;
  return {.rows = d[0], .heads = d[1], .kv_heads = d[2], .dim = d[3]};
}

void head_forward(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    HeadNorm<T> n = heads_of<T>(*call.kernel);
    n.x = input<T>(call, 0);
    n.wq = input<T>(call, 1);
    n.wk = input<T>(call, 2);
    n.out = output<T>(call, 0);
    n.stats = output<Acc<T>>(call, 1);
    n.eps = static_cast<Acc<T>>(call.kernel->scalars[0]);
    for_width<T>(n.dim, {n.x, n.wq, n.wk, n.out}, [&](auto w) {
      queue.launch({blocks_of(n.all(), kRows)}, {kWarp, kRows}, 0, head_norm_forward<T, w.kValue>,
                   n);
    });
  });
}

void head_backward_input(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    HeadNorm<T> n = heads_of<T>(*call.kernel);
    n.dy = input<T>(call, 0);
    n.x = input<T>(call, 1);
    n.wq = input<T>(call, 2);
    n.wk = input<T>(call, 3);
    n.out = output<T>(call, 0);
    n.stats = input<Acc<T>>(call, 4);
    for_width<T>(n.dim, {n.dy, n.x, n.wq, n.wk, n.out}, [&](auto w) {
      queue.launch({blocks_of(n.all(), kRows)}, {kWarp, kRows}, 0,
                   head_norm_backward_input<T, w.kValue>, n);
    });
  });
}

void head_backward_weight(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const auto& d = call.kernel->dims;
    const HeadWeightTerm<T> term{
        input<T>(call, 0), input<T>(call, 1), input<Acc<T>>(call, 2), d[1], d[2], d[3]};
    sum_columns<T>(call, queue, term, d[0] * (d[1] + d[2]), d[3], {term.dy, term.x},
                   output_ref(call, 0), output_ref(call, 1));
  });
}

std::int64_t head_scratch(const Kernel& kernel) {
  const auto& d = kernel.dims;
  return column_scratch(kernel, d[0] * (d[1] + d[2]), d[3], 2);
}

template <bool kCentered>
void forward(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
    const Norm<T> n{rows,
                    cols,
                    nullptr,
                    input<T>(call, 0),
                    input<T>(call, 1),
                    kCentered ? input<T>(call, 2) : nullptr,
                    nullptr,
                    output<T>(call, 0),
                    output<Acc<T>>(call, 1),
                    static_cast<Acc<T>>(call.kernel->scalars[0])};
    for_width<T>(cols, {n.x, n.w, n.b, n.out}, [&](auto w) {
      queue.launch({blocks_of(rows, kRows)}, {kWarp, kRows}, 0,
                   norm_forward<T, w.kValue, kCentered>, n);
    });
  });
}

template <bool kCentered>
void backward_input(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
    const Norm<T> n{rows,
                    cols,
                    input<T>(call, 0),
                    input<T>(call, 1),
                    input<T>(call, 2),
                    nullptr,
                    input<T>(call, 4),
                    output<T>(call, 0),
                    input<Acc<T>>(call, 3),
                    0};
    for_width<T>(cols, {n.dy, n.x, n.w, n.resid, n.out}, [&](auto w) {
      queue.launch({blocks_of(rows, kRows)}, {kWarp, kRows}, 0,
                   norm_backward_input<T, w.kValue, kCentered>, n);
    });
  });
}

template <bool kCentered>
void backward_weight(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
    const WeightTerm<T, kCentered> term{input<T>(call, 0), input<T>(call, 1),
                                        input<Acc<T>>(call, 2), cols};
    sum_columns<T>(call, queue, term, rows, cols, {term.dy, term.x}, output_ref(call, 0),
                   output_ref(call, 1));
  });
}

template <int kOutputs>
std::int64_t scratch(const Kernel& kernel) {
  return column_scratch(kernel, kernel.dims[0], kernel.dims[1], kOutputs);
}

}  // namespace

void add_norms(Registry& rows) {
  rows[KernelKind::LayerNormForward] = {forward<true>};
  rows[KernelKind::LayerNormBackwardInput] = {backward_input<true>};
  rows[KernelKind::LayerNormBackwardWeight] = {backward_weight<true>, scratch<2>};
  rows[KernelKind::HeadNormForward] = {head_forward};
  rows[KernelKind::HeadNormBackwardInput] = {head_backward_input};
  rows[KernelKind::HeadNormBackwardWeight] = {head_backward_weight, head_scratch};
  rows[KernelKind::RmsNormForward] = {forward<false>};
  rows[KernelKind::RmsNormBackwardInput] = {backward_input<false>};
  rows[KernelKind::RmsNormBackwardWeight] = {backward_weight<false>, scratch<1>};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
