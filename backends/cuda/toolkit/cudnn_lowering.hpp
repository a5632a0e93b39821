// A cudnn::Graph as descriptors of cuDNN's backend API, and the engines that take it.
#pragma once

#ifdef LOCKSTEP_HAVE_CUDNN
#include "backends/cuda/cudnn/graph.hpp"
#include "backends/cuda/toolkit/cudnn_calls.hpp"

namespace lockstep::cuda {

/// In bytes, of every address that a plan is given.
inline constexpr std::int64_t kCudnnAlignment = 16;
/// By which a plan is given the address of a tensor of the graph.
inline std::int64_t cudnn_id(int tensor) { return tensor + 1; }

/// The operation graph. `handle`: null where no GPU is there.
cudnnBackendDescriptor_t lower(CudnnBuilder& build, const cudnn::Graph& graph,
                               cudnnHandle_t handle);

/// Engines that take the graph, the one that cuDNN thinks fastest first; without those that add up
/// in no fixed order. `device`: a description, or null for the handle's.
std::vector<cudnnBackendDescriptor_t> engines(const CudnnCalls& calls, CudnnBuilder& build,
                                              cudnnBackendDescriptor_t operation_graph,
                                              cudnnBackendDescriptor_t device);

}  // namespace lockstep::cuda

#endif
