// cuDNN lowering: a cudnn::Graph as descriptors of cuDNN's backend API, and the engines that accept
// it.
#pragma once

#ifdef LOCKSTEP_HAVE_CUDNN
#include "backends/cuda/cudnn/graph.hpp"
#include "backends/cuda/toolkit/cudnn_calls.hpp"

namespace lockstep::cuda {

/// The alignment, in bytes, of every address that a plan is given.
inline constexpr std::int64_t kCudnnAlignment = 16;
/// The id by which a plan is given the address of a tensor of the graph.
inline std::int64_t cudnn_id(int tensor) { return tensor + 1; }

/// The operation graph. `handle` is null if there is no GPU.
cudnnBackendDescriptor_t lower(CudnnBuilder& build, const cudnn::Graph& graph,
                               cudnnHandle_t handle);

/// The engines that accept the graph, beginning with the one that cuDNN considers fastest, without
/// those whose sums have no fixed order. `device` describes the GPU; null for that of the handle.
std::vector<cudnnBackendDescriptor_t> engines(const CudnnCalls& calls, CudnnBuilder& build,
                                              cudnnBackendDescriptor_t operation_graph,
                                              cudnnBackendDescriptor_t device);

}  // namespace lockstep::cuda

#endif
