// Sums over the rows of a matrix, column by column, in two deterministic passes: blocks add up
// ranges of rows into scratch memory, then the ranges are added in order.
#pragma once

#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

inline constexpr int kColumnThreads = 256;

/// How many packs of columns the threads of a block take side by side; its other threads take
/// further rows.
inline unsigned column_lanes(int64_t packs) {
  unsigned lanes = 1;
  while (lanes < kWarp && lanes < packs) lanes *= 2;
  return lanes;
}
/// Into how many ranges the rows are split: as many as occupy a GPU, of at least 128 rows each.
inline int64_t row_ranges(int64_t rows, int64_t cols) {
  constexpr int64_t kBlocks = 512, kColumnsOfBlock = 256;
  const int64_t most = kBlocks / blocks_of(cols, kColumnsOfBlock);
  return greater<int64_t>(smaller<int64_t>((rows + 127) / 128, most), 1);
}
inline int64_t column_scratch(const Kernel& kernel, int64_t rows, int64_t cols, int outputs) {
  return row_ranges(rows, cols) * cols * outputs * (kernel.dtype == DType::F64 ? 8 : 4);
}

/// Sums each range of rows. A Term has kOutputs sums per column: column<N>(c) returns what N
/// columns have in common, and add<N>(row, c, that, sums) adds the part of a row to their sums.
template <int N, class A, class Term>
__global__ void __launch_bounds__(kColumnThreads)
    sum_ranges(Term term, int64_t rows, int64_t cols, A* partial) {
  constexpr int kOutputs = Term::kOutputs;
  // The tile is padded so that neither writing nor reading it has bank conflicts.
  __shared__ A tile[kOutputs * N][kColumnThreads + kWarp / N];
  const int lanes = static_cast<int>(blockDim.x);
  const int64_t c0 = static_cast<int64_t>(blockIdx.x) * lanes * N, c = c0 + threadIdx.x * N;
  const int64_t range = (rows + gridDim.y - 1) / gridDim.y;
  const int64_t first = blockIdx.y * range, last = smaller(rows, first + range);
  A sums[kOutputs][N] = {};
  if (c < cols) {
    const auto common = term.template column<N>(c);
    by_fours(first + threadIdx.y, last, blockDim.y,
             [&](int64_t r) { term.template add<N>(r, c, common, sums); });
  }
  const int thread = static_cast<int>(threadIdx.y) * lanes + static_cast<int>(threadIdx.x);
  LOCKSTEP_UNROLL
  for (int o = 0; o < kOutputs; ++o) {
    LOCKSTEP_UNROLL
    for (int j = 0; j < N; ++j) tile[o * N + j][thread] = sums[o][j];
  }
  sync_block();
  const int width = lanes * N;
  for (int at = thread; at < kOutputs * width; at += kColumnThreads) {
    const int o = at / width, column = at % width;
    if (c0 + column >= cols) continue;
    const A* const line = tile[o * N + column % N];
    A sum = 0;
    for (int i = column / N; i < kColumnThreads; i += lanes) sum += line[i];
    partial[(blockIdx.y * kOutputs + o) * cols + c0 + column] = sum;
  }
}

/// What Term::column() returns if columns have nothing in common.
struct Nothing {};

/// A factor by which the sums of a column are multiplied: here 1.
struct Unscaled {
  template <class A>
  __device__ A get(int, int64_t) const {
    return 1;
  }
};

template <class A, class Factor>
__global__ void __launch_bounds__(kColumnThreads)
    add_ranges(const A* partial, int64_t ranges, int outputs, int64_t cols, bool accumulate,
               Factor factor, Ref first, Ref second) {
  __shared__ A tile[kColumnThreads];
  const int lanes = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.y) * lanes + static_cast<int>(threadIdx.x);
  const int64_t c = static_cast<int64_t>(blockIdx.x) * lanes + threadIdx.x;
  for (int o = 0; o < outputs; ++o) {
    A sum = 0;
    if (c < cols) {
      by_fours(threadIdx.y, ranges, blockDim.y,
               [&](int64_t r) { sum += partial[(r * outputs + o) * cols + c]; });
    }
    sync_block();  // the sums of the output before have been read
    tile[thread] = sum;
    sync_block();
    if (threadIdx.y != 0 || c >= cols) continue;
    for (int i = thread + lanes; i < kColumnThreads; i += lanes) sum += tile[i];
    sum *= factor.template get<A>(o, c);
    const Ref out = o == 0 ? first : second;
    out.set(c, accumulate ? out.get<A>(c) + sum : sum);
  }
}

/// first[c] (and second[c]) (+)= factor × sums. `addresses` are those of everything that `term`
/// reads in packs.
template <class T, class Term, class Factor = Unscaled>
void sum_columns(const KernelCall& call, Queue& queue, const Term& term, int64_t rows, int64_t cols,
                 std::initializer_list<const void*> addresses, Ref first, Ref second = {},
                 const Factor& factor = {}) {
  using A = Acc<T>;
  A* const partial = reinterpret_cast<A*>(call.scratch);
  const int64_t ranges = row_ranges(rows, cols);
  for_width<T>(cols, addresses, [&](auto w) {
    constexpr int N = decltype(w)::kValue;
    const unsigned lanes = column_lanes(cols / N);
    queue.launch({blocks_of(cols, int64_t{lanes} * N), static_cast<unsigned>(ranges)},
                 {lanes, kColumnThreads / lanes}, 0, sum_ranges<N, A, Term>, term, rows, cols,
                 partial);
  });
  const unsigned lanes = ranges > 1 ? kWarp : kColumnThreads;
  queue.launch({blocks_of(cols, lanes)}, {lanes, kColumnThreads / lanes}, 0, add_ranges<A, Factor>,
               partial, ranges, Term::kOutputs, cols, call.kernel->accumulate, factor, first,
               second);
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
