// What the kernels for values in 8 bits share.
#pragma once

#include "backends/cuda/kernels/device.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

/// The largest of what the blocks of a grid have found, by one block of kThreads.
template <class A, int kThreads>
__global__ void largest_of_all(const A* largest, int64_t parts, Ref out) {
  A most = 0;
  for (int64_t i = threadIdx.x; i < parts; i += kThreads) most = greater(most, largest[i]);
  most = block_max<kThreads>(most);
  if (threadIdx.x == 0) out.set(0, most);
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
