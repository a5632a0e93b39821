// 2-D convolutions (core/ir/kernels/vision.cpp) as single operations, followed by what is added to
// their result. Windows of one pixel without stride are left to matrix products.
#include "backends/cuda/cudnn/graph.hpp"
#include "core/base/window.hpp"

namespace lockstep::cuda::cudnn {
namespace {

using Kind = Operation::Kind;

/// Strides of channels-last images. In cuDNN's order of dimensions the channels come second.
Extents channels_last(const Extents& dims) {
  return {dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]};
}

struct Window {
  Extents x, w, y;
  std::int64_t stride, pad;
  explicit Window(const Kernel& kernel) {
    const auto& d = kernel.dims;
    stride = d[6];
    pad = window_padding(d[5], stride);
    x = {d[0], d[3], d[1], d[2]};
    w = {d[4], d[3], d[5], d[5]};
    y = {d[0], d[4], (d[1] + stride - 1) / stride, (d[2] + stride - 1) / stride};
  }
};

}  // namespace

std::optional<Graph> convolution_graph(const Kernel& kernel) {
  const Window shape(kernel);
  const std::int64_t window = kernel.dims[5];
  if (size_of(kernel.dtype) != 2) return std::nullopt;
  if (window == 1 && shape.stride == 1) return std::nullopt;
  // cuDNN leaves out patches that reach beyond the image.
  const bool covered = shape.x[2] % window == 0 && shape.x[3] % window == 0;
  if (window == shape.stride && !covered) return std::nullopt;
  Graph graph;
  const auto tensor_in = [&](int operand, const Extents& dims) {
    return graph.input(operand, kernel.dtype, dims, channels_last(dims));
  };
  const DType out_type = kernel.out[0].dtype;
  const auto convolve = [&](Kind kind, std::initializer_list<int> in, const Extents& dims,
                            int added) {
    const int out = graph.output(0, out_type, dims, channels_last(dims));
    // No engine writes float32 itself.
    const bool direct = added < 0 && out_type == kernel.dtype;
    const int result = direct ? out : graph.virtual_tensor(DType::F32, dims, channels_last(dims));
    Operation& operation = graph.add_into(kind, in, result);
    operation.stride = shape.stride;
    operation.pad = shape.pad;
    if (added >= 0) graph.add_into(Kind::Add, {result, added}, out);
    if (added < 0 && !direct) graph.add_into(Kind::Identity, {result}, out);
  };
  switch (kernel.kind) {
    case KernelKind::Conv2dForward:
      convolve(Kind::Convolution, {tensor_in(0, shape.x), tensor_in(1, shape.w)}, shape.y, -1);
      break;
    case KernelKind::Conv2dBackwardInput: {
      const bool resid = kernel.in.size() > 2 && kernel.in[2].present();
      const int dy = tensor_in(0, shape.y), w = tensor_in(1, shape.w);
      convolve(Kind::ConvolutionInput, {dy, w}, shape.x, resid ? tensor_in(2, shape.x) : -1);
      break;
    }
    default: {
      const int dy = tensor_in(0, shape.y), x = tensor_in(1, shape.x);
      // What dw holds already is read where it is written.
      const int so_far =
          kernel.accumulate ? graph.output(0, out_type, shape.w, channels_last(shape.w)) : -1;
      convolve(Kind::ConvolutionWeight, {dy, x}, shape.w, so_far);
    }
  }
  return graph;
}

}  // namespace lockstep::cuda::cudnn
