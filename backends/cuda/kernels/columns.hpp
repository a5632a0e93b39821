// Sums over the rows of a matrix, column by column, in two deterministic passes: blocks add up
// ranges of rows into scratch memory, then the ranges are added in order.
#pragma once

#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

inline constexpr int kColumnLanes = 32, kRowLanes = 8;

/// Ranges that the rows are split into: a function of the rows alone, so that sums are, too.
inline int64_t row_ranges(int64_t rows) {
  const int64_t ranges = (rows + 255) / 256;
  return ranges < 1 ? 1 : ranges > 64 ? 64 : ranges;
}
inline int64_t column_scratch(const Kernel& kernel, int64_t rows, int64_t cols, int outputs) {
  return row_ranges(rows) * cols * outputs * (kernel.dtype == DType::F64 ? 8 : 4);
}

/// Term: kOutputs sums per column; add<N>(row, column, sums) adds a row's part of N columns.
template <int N, class A, class Term>
__global__ void sum_ranges(Term term, int64_t rows, int64_t cols, A* partial) {
  constexpr int kOutputs = Term::kOutputs;
  __shared__ A tile[kRowLanes][kOutputs * N][kColumnLanes];
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kColumnLanes + threadIdx.x) * N;
  const int64_t range = (rows + gridDim.y - 1) / gridDim.y;
  const int64_t first = blockIdx.y * range, last = smaller(rows, first + range);
  A sums[kOutputs][N] = {};
  if (c < cols) {
    for (int64_t r = first + threadIdx.y; r < last; r += kRowLanes) {
      term.template add<N>(r, c, sums);
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    for (int j = 0; j < N; ++j) tile[threadIdx.y][o * N + j][threadIdx.x] = sums[o][j];
  }
  sync_block();
  if (threadIdx.y != 0 || c >= cols) return;
  for (int o = 0; o < kOutputs; ++o) {
    for (int j = 0; j < N; ++j) {
      A sum = tile[0][o * N + j][threadIdx.x];
      for (int lane = 1; lane < kRowLanes; ++lane) sum += tile[lane][o * N + j][threadIdx.x];
      partial[(blockIdx.y * kOutputs + o) * cols + c + j] = sum;
    }
  }
}

/// What the sums of a column are multiplied by.
struct Unscaled {
  template <class A>
  __device__ A get(int, int64_t) const {
    return 1;
  }
};

template <class A, class Factor>
__global__ void add_ranges(const A* partial, int64_t ranges, int outputs, int64_t cols,
                           bool accumulate, Factor factor, Ref first, Ref second) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  for (int o = 0; o < outputs; ++o) {
    const Ref out = o == 0 ? first : second;
    A sum = 0;
    for (int64_t r = 0; r < ranges; ++r) sum += partial[(r * outputs + o) * cols + c];
    sum *= factor.template get<A>(o, c);
    out.set(c, accumulate ? out.get<A>(c) + sum : sum);
  }
}

/// first[c] (and second[c]) (+)= factor times sums; `addresses`: of all that `term` reads in packs.
template <class T, class Term, class Factor = Unscaled>
void sum_columns(const KernelCall& call, Queue& queue, const Term& term, int64_t rows, int64_t cols,
                 std::initializer_list<const void*> addresses, Ref first, Ref second = {},
                 const Factor& factor = {}) {
  using A = Acc<T>;
  A* const partial = reinterpret_cast<A*>(call.scratch);
  const auto ranges = static_cast<unsigned>(row_ranges(rows));
  for_width<T>(cols, addresses, [&](auto w) {
    constexpr int N = decltype(w)::kValue;
    queue.launch({blocks_of(cols, kColumnLanes * N), ranges}, {kColumnLanes, kRowLanes}, 0,
                 sum_ranges<N, A, Term>, term, rows, cols, partial);
  });
  queue.launch({blocks_of(cols, 128)}, {128}, 0, add_ranges<A, Factor>, partial, int64_t{ranges},
               Term::kOutputs, cols, call.kernel->accumulate, factor, first, second);
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
