// Convolutions and pooling over images whose channels come last.
#include "core/ir/kernels/rows.hpp"

namespace lockstep {
namespace {

/// The fault of a window that cannot be centred on a position (window_padding()).
std::string_view bad_window(std::int64_t size, std::int64_t stride) {
  return stride < 1 ? "stride below 1" : size % 2 == 0 ? "even kernel" : "";
}
std::string_view bad_pooling(const Kernel& kernel) {
  return bad_window(kernel.dims[4], kernel.dims[5]);
}
/// Windows of a convolution may also lie side by side, which takes no centre.
std::string_view bad_convolution(const Kernel& kernel) {
  const std::int64_t size = kernel.dims[5], stride = kernel.dims[6];
  return size == stride && size > 0 ? "" : bad_window(size, stride);
}

}  // namespace

std::vector<KernelRow> rows::vision() {
  const auto convolution = words("batch height width in out kernel stride");
  const auto pooling = words("batch height width channels kernel stride");
  const auto average = words("batch positions cols");
  return {
      // y = the convolution of x with w, two-dimensional
      //   x [batch, height, width, in], w [out, kernel, kernel, in], y [batch, height', width',
      //   out]
      // The kernel is odd and centred, or as large as the stride, and then there is no padding
      // (window_padding()); height' = ceil(height / stride), and beyond the image lie zeros.
      {.kind = K::Conv2dForward,
       .name = "conv2d_forward",
       .dims = convolution,
       .in = {{"x", "batch height width in"}, {"w", "out kernel kernel in"}},
       .out = {{"y", "batch height/stride width/stride out"}},
       .flops = "2 batch height/stride width/stride out kernel kernel in",
       .efficiency_as = "gemm",
       .width = "min(in, out)",
       .tf32 = Tf32::Convolutions,
       .fault = bad_convolution},
      // dx = the gradient with respect to x + resid
      {.kind = K::Conv2dBackwardInput,
       .name = "conv2d_backward_input",
       .dims = convolution,
       .in = {{"dy", "batch height/stride width/stride out"},
              {"w", "out kernel kernel in"},
              {"[resid]", "batch height width in"}},
       .out = {{"dx", "batch height width in"}},
       .flops = "2 batch height/stride width/stride out kernel kernel in",
       .efficiency_as = "gemm",
       .width = "min(in, out)",
       .tf32 = Tf32::Convolutions,
       .fault = bad_convolution},
      // dw (+)= the gradient with respect to w
      {.kind = K::Conv2dBackwardWeight,
       .name = "conv2d_backward_weight",
       .dims = convolution,
       .in = {{"dy", "batch height/stride width/stride out"}, {"x", "batch height width in"}},
       .out = {{"dw", "out kernel kernel in", Mixed, Accumulate}},
       .flops = "2 batch height/stride width/stride out kernel kernel in",
       .efficiency_as = "gemm",
       .width = "min(in, out)",
       .tf32 = Tf32::Convolutions,
       .fault = bad_convolution},
      // y = the largest input of each window and channel. Images are padded as for a convolution,
      // and padding never is the largest. Flops: a comparison for each input of a window.
      {.kind = K::MaxPoolForward,
       .name = "max_pool_forward",
       .dims = pooling,
       .in = {{"x", "batch height width channels"}},
       .out = {{"y", "batch height/stride width/stride channels"}},
       .flops = "batch height/stride width/stride channels kernel kernel",
       .fault = bad_pooling},
      // dx: dy goes to the first of the largest inputs of its window, row by row. Flops: the
      // largest input is found again, then dy is added to it.
      {.kind = K::MaxPoolBackward,
       .name = "max_pool_backward",
       .dims = pooling,
       .in = {{"dy", "batch height/stride width/stride channels"},
              {"x", "batch height width channels"}},
       .out = {{"dx", "batch height width channels"}},
       .flops = "batch height/stride width/stride channels (kernel kernel + 1)",
       .fault = bad_pooling},
      // y [batch, cols] = the mean of x [batch, positions, cols] over positions
      {.kind = K::AveragePoolForward,
       .name = "average_pool_forward",
       .dims = average,
       .in = {{"x", "batch positions cols"}},
       .out = {{"y", "batch cols"}},
       .flops = "batch positions cols"},
      // dx = dy / positions, at every position
      {.kind = K::AveragePoolBackward,
       .name = "average_pool_backward",
       .dims = average,
       .in = {{"dy", "batch cols"}},
       .out = {{"dx", "batch positions cols"}},
       .flops = "batch positions cols"},
  };
}

}  // namespace lockstep
