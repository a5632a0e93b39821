// Sums to scalars, in float64 and in a fixed order; and sums over ranks.
#include <numeric>

#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kPart = 1 << 15;  // elements that one block adds up

struct Same {
  __device__ double operator()(double v) const { return v; }
};
struct Square {
  __device__ double operator()(double v) const { return v * v; }
};

/// The input is divided into blocks of `length` elements. Block (part, b) of the grid adds up one
/// part of block b.
template <class T, class Term, int N>
__global__ void sum_parts(const T* x, int64_t n, int64_t length, double* partial) {
  const int64_t begin = blockIdx.y * length, end = smaller(n, begin + length);
  const int64_t first = begin + blockIdx.x * kPart, last = smaller(end, first + kPart);
  double sum = 0;
  by_fours(first + threadIdx.x * N, last, kThreads * N, [&](int64_t i) {
    const auto v = load<N>(x + i);
    for (int j = 0; j < N; ++j) sum += Term()(static_cast<double>(v[j]));
  });
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) partial[static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x] = sum;
}

__global__ void add_parts(const double* partial, int64_t parts, bool accumulate, Ref y) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < parts; i += kThreads) sum += partial[blockIdx.x * parts + i];
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x != 0) return;
  y.set(blockIdx.x, (accumulate ? y.get<double>(blockIdx.x) : 0.0) + sum);
}

__global__ void clip_coefficient(Ref squares, int64_t n, double max_norm, Ref loss_scale,
                                 Ref coefficient, Ref norm) {
  __shared__ double tile[kThreads];
  double sum = 0;
  for (int64_t base = 0; base < n; base += kThreads) {
    sync_block();
    if (base + threadIdx.x < n) tile[threadIdx.x] = squares.get<double>(base + threadIdx.x);
    sync_block();
    const int64_t count = smaller<int64_t>(kThreads, n - base);
    for (int64_t i = 0; i < count; ++i) sum += tile[i];  // in order, the same on every thread
  }
  if (threadIdx.x != 0) return;
  const double scale = loss_scale ? loss_scale.get<double>(0) : 1.0;
  const double root = sqrt(sum) / scale, ratio = max_norm / (root + 1e-6);
  const bool skips = loss_scale && !(root < infinity<double>());  // it is infinite, or no number
  coefficient.set(0, skips ? -1.0 : (max_norm > 0 && ratio < 1 ? ratio : 1.0) / scale);
  norm.set(0, root);
}

struct Summands {
  const std::byte* from[kMaxSummands];
  std::byte* to[kMaxSummands];
  int sources, targets;
};

template <class T, class A>
__global__ void add_ranks(Summands s, int64_t n, bool largest) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  A sum = value(reinterpret_cast<const T*>(s.from[0])[i]);
  for (int r = 1; r < s.sources; ++r) {
    const A more = value(reinterpret_cast<const T*>(s.from[r])[i]);
    sum = !largest ? sum + more : more > sum ? more : sum;
  }
  for (int r = 0; r < s.targets; ++r) put(reinterpret_cast<T*>(s.to[r])[i], sum);
}

int64_t parts_of(const Kernel& kernel) {
  const int64_t blocks = kernel.kind == KernelKind::NormSquared ? kernel.dims[1] : 1;
  const int64_t length = (kernel.dims[0] + blocks - 1) / blocks;
  return length < 1 ? 1 : (length + kPart - 1) / kPart;
}

template <class Term>
void run_sum(const KernelCall& call, Queue& queue) {
  const Kernel& kernel = *call.kernel;
  const int64_t n = kernel.dims[0];
  const int64_t blocks = kernel.kind == KernelKind::NormSquared ? kernel.dims[1] : 1;
  const int64_t parts = parts_of(kernel), length = (n + blocks - 1) / blocks;
  auto* const partial = reinterpret_cast<double*>(call.scratch);
  for_type(kernel.dtype, [&](auto t) {
    using T = decltype(t);
    const T* const x = input<T>(call, 0);
    for_width<T>(std::gcd(n, length), {x}, [&](auto w) {
      queue.launch({static_cast<unsigned>(parts), static_cast<unsigned>(blocks)}, {kThreads}, 0,
                   sum_parts<T, Term, w.kValue>, x, n, length, partial);
    });
  });
  queue.launch({static_cast<unsigned>(blocks)}, {kThreads}, 0, add_parts, partial, parts,
               kernel.accumulate, output_ref(call, 0));
}

std::int64_t partials(const Kernel& kernel) {
  return 8 * parts_of(kernel) * (kernel.kind == KernelKind::NormSquared ? kernel.dims[1] : 1);
}

void run_clip(const KernelCall& call, Queue& queue) {
  queue.launch({1}, {kThreads}, 0, clip_coefficient, input_ref(call, 0), call.kernel->dims[0],
               call.kernel->scalars[0], input_ref(call, 1), output_ref(call, 0),
               output_ref(call, 1));
}

}  // namespace

void add_in_order(DType dtype, std::int64_t elements, std::span<const std::byte* const> sources,
                  std::span<std::byte* const> targets, bool largest, Queue& queue) {
  Summands s{};
  s.sources = static_cast<int>(sources.size());
  s.targets = static_cast<int>(targets.size());
  for (std::size_t i = 0; i < sources.size(); ++i) s.from[i] = sources[i];
  for (std::size_t i = 0; i < targets.size(); ++i) s.to[i] = targets[i];
  const auto run = [&](auto* kernel) {
    queue.launch({blocks_of(elements, kThreads)}, {kThreads}, 0, kernel, s, elements, largest);
  };
  switch (dtype) {
    case DType::F64:
      return run(add_ranks<double, double>);
    case DType::BF16:
      return run(add_ranks<BF16, float>);
    case DType::F16:
      return run(add_ranks<F16, float>);
    case DType::I32:
      return run(add_ranks<std::int32_t, std::int32_t>);
    default:
      return run(add_ranks<float, float>);
  }
}

void add_reductions(Registry& rows) {
  rows[KernelKind::Sum] = {run_sum<Same>, partials};
  rows[KernelKind::NormSquared] = {run_sum<Square>, partials};
  rows[KernelKind::ClipCoefficient] = {run_clip};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
