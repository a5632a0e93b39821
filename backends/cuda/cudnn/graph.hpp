// Graph: a kernel as operations between tensors, in the terms of cuDNN's graph API (NVIDIA, cuDNN
// backend API). It needs no CUDA header: backends/cuda/toolkit gives it to cuDNN, and tests compute
// it on the CPU.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "core/ir/kernels/kernel.hpp"

namespace lockstep::cuda::cudnn {

using Extents = std::array<std::int64_t, 4>;

/// The strides of a row-major tensor with nothing between its elements.
Extents dense(const Extents& dims);

struct Tensor {
  enum class Place : std::uint8_t { Virtual, Input, Output, Workspace, Value };
  Place place = Place::Virtual;  // a virtual tensor is never stored
  DType type = DType::F32;       // U8: truth values
  Extents dims{}, strides{};     // in elements
  int operand = 0;               // index into the kernel's in or out
  std::int64_t offset = 0;       // in bytes, in that operand or in the workspace
  float value = 0;               // of a tensor at Place::Value
};

/// An operation. An operand that has one element in a dimension is repeated as often as the result
/// needs it.
struct Operation {
  enum class Kind : std::uint8_t {
    MatMul,             // [.., m, k] [.., k, n]; in[1] may have a divisor of the heads (dims[1])
    Convolution,        // x [n, c, h, w], w [k, c, r, s] -> y; cross-correlation
    ConvolutionInput,   // dy, w -> dx
    ConvolutionWeight,  // dy, x -> dw
    Reshape,            // the same memory, read by other dims and strides
    Max,                // over the dimensions that the result lacks
    Sum,                // likewise; it can also sum over groups of heads
    Add,
    Subtract,
    Multiply,
    Divide,
    Exp,
    Log,
    Identity,
    Index,         // the index of each element along `axis`
    GreaterEqual,  // in[0] >= in[1]
    Select,        // in[2] ? in[0] : in[1]
  };
  Kind kind{};
  std::array<int, 3> in{-1, -1, -1};
  int out = -1;
  int axis = 0;
  std::int64_t stride = 1, pad = 0;  // of a convolution, in both directions
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;
  std::int64_t workspace_bytes = 0;  // for tensors at Place::Workspace
  // Each of these adds a tensor and returns its index. `element` is where it begins in the operand.
  int input(int operand, DType type, const Extents& dims, const Extents& strides,
            std::int64_t element = 0);
  int output(int operand, DType type, const Extents& dims, const Extents& strides,
             std::int64_t element = 0);
  int workspace(DType type, const Extents& dims);
  int value(float value);
  int virtual_tensor(DType type, const Extents& dims, const Extents& strides);
  /// Adds an operation whose result is a new virtual tensor with dense strides.
  int add(Operation::Kind kind, std::initializer_list<int> in, const Extents& dims,
          DType type = DType::F32);
  Operation& add_into(Operation::Kind kind, std::initializer_list<int> in, int out);
};

/// Whether graph_of() has anything for this kind, as it has for attention and convolutions.
bool may_have_graph(KernelKind kind);
/// The graph of a kernel, or nullopt if it is not for cuDNN. There are graphs for causal attention
/// of bfloat16 to a rank's own keys with head_dim a multiple of 8, as a flash attention whose sums
/// all have one order, and for convolutions of 16 bits whose windows are not single pixels.
std::optional<Graph> graph_of(const Kernel& kernel);

// Each of these has a file of its own.
std::optional<Graph> attention_graph(const Kernel& kernel);
std::optional<Graph> convolution_graph(const Kernel& kernel);

}  // namespace lockstep::cuda::cudnn
