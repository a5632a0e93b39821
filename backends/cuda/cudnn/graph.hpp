// Graph: a kernel as operations between tensors, in the vocabulary of cuDNN's graph API (NVIDIA,
// cuDNN backend API). It needs no CUDA header: backends/cuda/toolkit hands it to cuDNN, tests
// compute it on the CPU.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "core/ir/kernels/kernel.hpp"

namespace lockstep::cuda::cudnn {

using Extents = std::array<std::int64_t, 4>;

/// Row-major, nothing between the elements.
Extents dense(const Extents& dims);

struct Tensor {
  enum class Place : std::uint8_t { Virtual, Input, Output, Workspace, Value };
  Place place = Place::Virtual;  // Virtual: never stored
  DType type = DType::F32;       // U8: truth values
  Extents dims{}, strides{};     // in elements
  int operand = 0;               // of the kernel's in or out
  std::int64_t offset = 0;       // in bytes, in that operand or in the workspace
  float value = 0;               // Place::Value
};

/// An operand with one element in a dimension stands for as many as the result has.
struct Operation {
  enum class Kind : std::uint8_t {
    MatMul,             // [.., m, k] [.., k, n]; in[1] may have a divisor of the heads (dims[1])
    Convolution,        // x [n, c, h, w], w [k, c, r, s] -> y; cross-correlation
    ConvolutionInput,   // dy, w -> dx
    ConvolutionWeight,  // dy, x -> dw
    Reshape,            // the same memory, read by other dims and strides
    Max,                // over the dimensions that the result lacks
    Sum,                // likewise; of groups of heads, too
    Add,
    Subtract,
    Multiply,
    Divide,
    Exp,
    Log,
    Identity,
    Index,         // of the element along `axis`
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
  std::int64_t workspace_bytes = 0;  // of Place::Workspace

  // Each returns the tensor's index. `element`: where it begins in the operand.
  int input(int operand, DType type, const Extents& dims, const Extents& strides,
            std::int64_t element = 0);
  int output(int operand, DType type, const Extents& dims, const Extents& strides,
             std::int64_t element = 0);
  int workspace(DType type, const Extents& dims);
  int value(float value);
  int virtual_tensor(DType type, const Extents& dims, const Extents& strides);
  /// To a new virtual tensor, dense.
  int add(Operation::Kind kind, std::initializer_list<int> in, const Extents& dims,
          DType type = DType::F32);
  Operation& add_into(Operation::Kind kind, std::initializer_list<int> in, int out);
};

/// Attention and convolutions.
bool may_have_graph(KernelKind kind);
/// None: nothing for cuDNN. Attention of bfloat16 to own keys, head_dim a multiple of 8, as a
/// flash attention whose sums all have one order; convolutions of bfloat16 with odd windows.
std::optional<Graph> graph_of(const Kernel& kernel);

// One per file.
std::optional<Graph> attention_graph(const Kernel& kernel);
std::optional<Graph> convolution_graph(const Kernel& kernel);

}  // namespace lockstep::cuda::cudnn
