// Kernels of single elements: one thread per pack of elements.
#pragma once

#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

constexpr int kThreads = 256;

template <int N, class F>
__global__ void map(F f, int64_t n) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (i < n) f.template at<N>(i);
}

/// Calls f.at<N>(i) for every N-th i below n, which N divides.
template <int N, class F>
void launch_map(Queue& queue, const F& f, int64_t n) {
  queue.launch({blocks_of(n, int64_t{kThreads} * N)}, {kThreads}, 0, map<N, F>, f, n);
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
