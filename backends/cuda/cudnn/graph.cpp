#include "backends/cuda/cudnn/graph.hpp"

#include <algorithm>

namespace lockstep::cuda::cudnn {
namespace {

int push(std::vector<Tensor>& tensors, const Tensor& tensor) {
  tensors.push_back(tensor);
  return static_cast<int>(tensors.size()) - 1;
}

}  // namespace

Extents dense(const Extents& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

int Graph::input(int operand, DType type, const Extents& dims, const Extents& strides,
                 std::int64_t element) {
  return push(tensors,
              {Tensor::Place::Input, type, dims, strides, operand, element * size_of(type), 0});
}

int Graph::output(int operand, DType type, const Extents& dims, const Extents& strides,
                  std::int64_t element) {
  return push(tensors,
              {Tensor::Place::Output, type, dims, strides, operand, element * size_of(type), 0});
}

int Graph::workspace(DType type, const Extents& dims) {
  const std::int64_t at = workspace_bytes;
  const std::int64_t bytes = dims[0] * dims[1] * dims[2] * dims[3] * size_of(type);
  workspace_bytes += (bytes + 255) / 256 * 256;
  return push(tensors, {Tensor::Place::Workspace, type, dims, dense(dims), 0, at, 0});
}

int Graph::value(float value) {
  return push(tensors, {Tensor::Place::Value, DType::F32, {1, 1, 1, 1}, {1, 1, 1, 1}, 0, 0, value});
}

int Graph::virtual_tensor(DType type, const Extents& dims, const Extents& strides) {
  return push(tensors, {Tensor::Place::Virtual, type, dims, strides, 0, 0, 0});
}

int Graph::add(Operation::Kind kind, std::initializer_list<int> in, const Extents& dims,
               DType type) {
  return add_into(kind, in, virtual_tensor(type, dims, dense(dims))).out;
}

Operation& Graph::add_into(Operation::Kind kind, std::initializer_list<int> in, int out) {
  Operation& operation = operations.emplace_back();
  operation.kind = kind;
  std::copy(in.begin(), in.end(), operation.in.begin());
  operation.out = out;
  return operation;
}

bool may_have_graph(KernelKind kind) {
  switch (kind) {
    case KernelKind::AttentionForward:
    case KernelKind::AttentionBackward:
    case KernelKind::Conv2dForward:
    case KernelKind::Conv2dBackwardInput:
    case KernelKind::Conv2dBackwardWeight:
      return true;
    default:
      return false;
  }
}

std::optional<Graph> graph_of(const Kernel& kernel) {
  if (!may_have_graph(kernel.kind)) return std::nullopt;
  const bool attention =
      kernel.kind == KernelKind::AttentionForward || kernel.kind == KernelKind::AttentionBackward;
  return attention ? attention_graph(kernel) : convolution_graph(kernel);
}

}  // namespace lockstep::cuda::cudnn
