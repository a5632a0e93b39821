// Cross-entropy with the gradient of the logits in place, over the whole vocabulary or over one
// rank's part of it. In the second case the ranks first exchange three numbers for each row.
#include "backends/cuda/kernels/registry.hpp"
#include "core/base/documents.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kFewThreads = 256, kManyThreads = 1024;
/// From this many columns on, a row has work for many threads. Few rows are then under way at a
/// time, and still in the cache at the second pass.
constexpr int64_t kLongRow = 2048;

/// For how many blocks of kThreads threads a multiprocessor has registers.
template <class T, int kThreads>
constexpr int kResident = (sizeof(T) == 8 ? 1024 : 2048) / kThreads;

/// The largest logit of a row, and the sum of exp(logit - largest).
template <class A>
struct RowSum {
  A largest, sum;
};

/// The RowSum of the first `real` logits, by all threads of a block in one pass. For no logits it
/// is -inf and 0.
template <int kThreads, int N, class T>
__device__ RowSum<Acc<T>> sum_row(const T* x, int real) {
  using A = Acc<T>;
  A top = -infinity<A>(), sum = 0;
  for (int c = static_cast<int>(threadIdx.x) * N; c < real; c += kThreads * N) {
    auto v = load<N>(x + c);
    if (c + N > real) {  // the pack contains padding
      for (int j = 0; j < N; ++j) v[j] = c + j < real ? v[j] : -infinity<A>();
    }
    A most = -infinity<A>();
    for (int j = 0; j < N; ++j) most = greater(most, v[j]);
    if (most > top) {
      sum *= exponential(top - most);
      top = most;
    }
    for (int j = 0; j < N; ++j) sum += exponential(v[j] - top);
  }
  const A largest = block_max<kThreads>(top);
  // A thread without elements has nothing to rescale, and -inf - -inf is not a number. A sum that
  // is not a number stays so.
  return {largest, block_sum<kThreads>(sum == 0 ? A(0) : sum * exponential(top - largest))};
}

/// Writes dx = factor exp(x - largest), less `scale` at the target, and zero from `real` on.
template <int kThreads, int N, class T>
__device__ void write_gradient(const T* x, T* dx, int cols, int real, int target, Acc<T> largest,
                               Acc<T> factor, Acc<T> scale) {
  for (int c = static_cast<int>(threadIdx.x) * N; c < cols; c += kThreads * N) {
    auto v = load<N>(x + c);
    for (int j = 0; j < N; ++j) v[j] = exponential(v[j] - largest) * factor;
    if (c + N > real) {
      for (int j = 0; j < N; ++j) v[j] = c + j < real ? v[j] : Acc<T>(0);
    }
    if (target >= c && target < c + N) {
      for (int j = 0; j < N; ++j) v[j] -= c + j == target ? scale : Acc<T>(0);
    }
    store<N>(dx + c, v);
  }
}

__device__ __forceinline__ int real_columns(const std::int32_t* columns, int cols) {
  return columns != nullptr ? columns[0] : cols;
}

/// What gradients are multiplied by: `scale`, and the loss scale where there is one.
template <class A>
__device__ __forceinline__ A gradient_scale(A scale, Ref loss_scale) {
  return loss_scale ? scale * loss_scale.get<A>(0) : scale;
}

/// There is a block for each row, which is in the cache at the second pass.
template <class T, int N, int kThreads>
__global__ void __launch_bounds__(kThreads, kResident<T, kThreads>)
    cross_entropy(int cols, const T* logits, const std::int32_t* targets, T* out, Acc<T> scale,
                  Ref loss_scale, double* losses) {
  using A = Acc<T>;
  const int64_t row = blockIdx.x;
  const int target = targets[row];
  const T* const x = logits + row * cols;
  const bool ignored = target == kIgnoredTarget;
  // It is read before it is overwritten by its gradient.
  const A at_target = ignored ? A(0) : value(x[target]);
  const RowSum<A> all = sum_row<kThreads, N>(x, cols);
  const A factor = ignored ? A(0) : gradient_scale(scale, loss_scale);
  write_gradient<kThreads, N>(x, out + row * cols, cols, cols, target, all.largest,
                              factor / all.sum, factor);
  if (threadIdx.x == 0) {
    losses[row] = ignored ? 0
                          : static_cast<double>(logarithm(all.sum)) +
                                static_cast<double>(all.largest) - static_cast<double>(at_target);
  }
}

/// Writes three numbers for each row: the largest logit, the sum, and the logit of the target.
template <class T, int N, int kThreads>
__global__ void __launch_bounds__(kThreads, kResident<T, kThreads>)
    cross_entropy_stats(int cols, const T* logits, const std::int32_t* targets,
                        const std::int32_t* columns, Ref stats) {
  using A = Acc<T>;
  const int64_t row = blockIdx.x;
  const int target = targets[row], real = real_columns(columns, cols);
  const T* const x = logits + row * cols;
  const RowSum<A> part = sum_row<kThreads, N>(x, real);
  if (threadIdx.x != 0) return;
  stats.set(row * 3, part.largest);
  stats.set(row * 3 + 1, part.sum);
  stats.set(row * 3 + 2, target >= 0 && target < real ? value(x[target]) : -infinity<A>());
}

template <class T, int N, int kThreads>
__global__ void __launch_bounds__(kThreads, kResident<T, kThreads>)
    cross_entropy_parallel(int cols, int64_t parts, const T* logits, const std::int32_t* targets,
                           Ref stats, const std::int32_t* columns, T* out, Acc<T> scale,
                           Ref loss_scale, double* losses) {
  using A = Acc<T>;
  const int64_t row = blockIdx.x, rows = gridDim.x;
  const int real = real_columns(columns, cols);
  const int target = targets[row] < real ? targets[row] : -1;
  A largest = -infinity<A>(), at_target = -infinity<A>(), sum = 0;
  for (int64_t p = 0; p < parts; ++p) {  // parts are few; every thread adds them all, in order
    const int64_t at = (p * rows + row) * 3;
    largest = greater(largest, stats.get<A>(at));
    at_target = greater(at_target, stats.get<A>(at + 2));
  }
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t at = (p * rows + row) * 3;
    const A own = stats.get<A>(at + 1);
    if (own != 0) sum += own * exponential(stats.get<A>(at) - largest);
  }
  const bool ignored = targets[row] == kIgnoredTarget;
  const A factor = ignored ? A(0) : gradient_scale(scale, loss_scale);
  write_gradient<kThreads, N>(logits + row * cols, out + row * cols, cols, real, target, largest,
                              factor / sum, factor);
  if (threadIdx.x == 0) {
    losses[row] = ignored ? 0
                          : static_cast<double>(logarithm(sum)) + static_cast<double>(largest) -
                                static_cast<double>(at_target);
  }
}

/// loss (+)= scale * sum, by one block in a fixed order.
__global__ void sum_losses(int64_t rows, const double* losses, double scale, bool accumulate,
                           Ref loss) {
  double sum = 0;
  by_fours(threadIdx.x, rows, kManyThreads, [&](int64_t r) { sum += losses[r]; });
  sum = block_sum<kManyThreads>(sum);
  if (threadIdx.x != 0) return;
  loss.set(0, (accumulate ? loss.get<double>(0) : 0.0) + scale * sum);
}

void add_up(const KernelCall& call, Queue& queue) {
  queue.launch({1}, {kManyThreads}, 0, sum_losses, call.kernel->dims[0],
               reinterpret_cast<const double*>(call.scratch), call.kernel->scalars[0],
               call.kernel->accumulate, output_ref(call, 1));
}

/// Calls launch(T{}, Width, threads of a block, which has one row), all known at compile time.
template <class F>
void for_rows(const KernelCall& call, const F& launch) {
  const int64_t cols = call.kernel->dims[1];
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const void* const out =
        call.kernel->kind == KernelKind::CrossEntropyStats ? nullptr : call.out[0];
    for_width<T>(cols, {call.in[0], out}, [&](auto w) {
      cols < kLongRow ? launch(t, w, Width<kFewThreads>{}) : launch(t, w, Width<kManyThreads>{});
    });
  });
}

void run_whole(const KernelCall& call, Queue& queue) {
  const int64_t rows = call.kernel->dims[0];
  const int cols = static_cast<int>(call.kernel->dims[1]);  // ids have 31 bits
  for_rows(call, [&](auto t, auto w, auto threads) {
    using T = decltype(t);
    constexpr int kThreads = decltype(threads)::kValue;
    queue.launch({static_cast<unsigned>(rows)}, {kThreads}, 0, cross_entropy<T, w.kValue, kThreads>,
                 cols, input<T>(call, 0), input<std::int32_t>(call, 1), output<T>(call, 0),
                 static_cast<Acc<T>>(call.kernel->scalars[0]), input_ref(call, 2),
                 reinterpret_cast<double*>(call.scratch));
  });
  add_up(call, queue);
}

void run_stats(const KernelCall& call, Queue& queue) {
  const int64_t rows = call.kernel->dims[0];
  const int cols = static_cast<int>(call.kernel->dims[1]);  // ids have 31 bits
  for_rows(call, [&](auto t, auto w, auto threads) {
    using T = decltype(t);
    constexpr int kThreads = decltype(threads)::kValue;
    queue.launch({static_cast<unsigned>(rows)}, {kThreads}, 0,
                 cross_entropy_stats<T, w.kValue, kThreads>, cols, input<T>(call, 0),
                 input<std::int32_t>(call, 1), input<std::int32_t>(call, 2), output_ref(call, 0));
  });
}

void run_parallel(const KernelCall& call, Queue& queue) {
  const int64_t rows = call.kernel->dims[0];
  const int cols = static_cast<int>(call.kernel->dims[1]);  // ids have 31 bits
  for_rows(call, [&](auto t, auto w, auto threads) {
    using T = decltype(t);
    constexpr int kThreads = decltype(threads)::kValue;
    queue.launch({static_cast<unsigned>(rows)}, {kThreads}, 0,
                 cross_entropy_parallel<T, w.kValue, kThreads>, cols, call.kernel->dims[2],
                 input<T>(call, 0), input<std::int32_t>(call, 1), input_ref(call, 2),
                 input<std::int32_t>(call, 3), output<T>(call, 0),
                 static_cast<Acc<T>>(call.kernel->scalars[0]), input_ref(call, 4),
                 reinterpret_cast<double*>(call.scratch));
  });
  add_up(call, queue);
}

std::int64_t row_losses(const Kernel& kernel) { return 8 * kernel.dims[0]; }

}  // namespace

void add_cross_entropy(Registry& rows) {
  rows[KernelKind::CrossEntropy] = {run_whole, row_losses};
  rows[KernelKind::CrossEntropyStats] = {run_stats};
  rows[KernelKind::CrossEntropyParallel] = {run_parallel, row_losses};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
