// Sums of the columns of a matrix. For one row that is a copy, a cast, or an addition to what is
// there.
#include "backends/cuda/kernels/columns.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;

template <class T>
struct SumTerm {
  static constexpr int kOutputs = 1;
  const T* x;
  int64_t cols;
  template <int N>
  __device__ Nothing column(int64_t) const {
    return {};
  }
  template <int N, class A>
  __device__ void add(int64_t row, int64_t c, Nothing, A (&sums)[kOutputs][N]) const {
    const auto v = load<N>(x + row * cols + c);
    for (int j = 0; j < N; ++j) sums[0][j] += v[j];
  }
};

/// y (+)= x, from one type to another.
template <int N, class From, class To>
__global__ void convert(const From* x, To* y, int64_t n, bool accumulate) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (i >= n) return;
  const auto v = load<N>(x + i);
  Values<Acc<To>, N> sum{};
  if (accumulate) sum = load<N>(y + i);
  for (int j = 0; j < N; ++j) sum[j] += static_cast<Acc<To>>(v[j]);
  store<N>(y + i, sum);
}

void run_convert(const KernelCall& call, Queue& queue) {
  const int64_t n = call.kernel->dims[1];
  for_type(call.kernel->dtype, [&](auto from) {
    for_type(call.kernel->out[0].dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      using Wider = std::conditional_t<(sizeof(From) > sizeof(To)), From, To>;
      From* const x = input<From>(call, 0);
      To* const y = output<To>(call, 0);
      for_width<Wider>(n, {x, y}, [&](auto w) {
        queue.launch({blocks_of(n, int64_t{kThreads} * w.kValue)}, {kThreads}, 0,
                     convert<w.kValue, From, To>, x, y, n, call.kernel->accumulate);
      });
    });
  });
}

void run_column_sum(const KernelCall& call, Queue& queue) {
  const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
  if (rows == 1) return run_convert(call, queue);
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const SumTerm<T> term{input<T>(call, 0), cols};
    sum_columns<T>(call, queue, term, rows, cols, {term.x}, output_ref(call, 0));
  });
}

std::int64_t scratch(const Kernel& kernel) {
  return kernel.dims[0] == 1 ? 0 : column_scratch(kernel, kernel.dims[0], kernel.dims[1], 1);
}

}  // namespace

void add_column_sum(Registry& rows) { rows[KernelKind::ColumnSum] = {run_column_sum, scratch}; }

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
