// 2-D convolution over channels-last images as matrix products. Forward, the patches of some images
// at a time are gathered into rows (im2col; Chellapilla et al. 2006) and multiplied by the weights;
// backward, products are added up for each pixel in a fixed order. Where a patch is one pixel, the
// image itself is the matrix.
#include "backends/cuda/kernels/gemm.hpp"
#include "core/base/window.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;
// Bytes of patches that are gathered at a time, unless one image needs more. In tests it is so
// small that a few images are several blocks.
#if defined(__CUDACC__)
constexpr int64_t kPatchBytes = int64_t{64} << 20;
#else
constexpr int64_t kPatchBytes = int64_t{16} << 10;
#endif

struct Convolution {
  int64_t batch, height, width, in, out, kernel, stride;
  int64_t pad, out_height, out_width;
  explicit Convolution(const Kernel& k)
      : batch(k.dims[0]),
        height(k.dims[1]),
        width(k.dims[2]),
        in(k.dims[3]),
        out(k.dims[4]),
        kernel(k.dims[5]),
        stride(k.dims[6]),
        pad(window_padding(k.dims[5], k.dims[6])),
        out_height((k.dims[1] + k.dims[6] - 1) / k.dims[6]),
        out_width((k.dims[2] + k.dims[6] - 1) / k.dims[6]) {}
  __host__ __device__ int64_t positions() const { return out_height * out_width; }
  __host__ __device__ int64_t depth() const { return kernel * kernel * in; }  // size of a patch
  int64_t pixels() const { return height * width * in; }
  bool is_product() const { return kernel == 1 && stride == 1; }
  /// How many images have their patches gathered at a time, if elements are this large.
  int64_t block(std::int64_t element_bytes) const {
    if (is_product()) return batch;
    const int64_t image = positions() * depth() * element_bytes;
    return smaller(batch, image < kPatchBytes ? kPatchBytes / image : int64_t{1});
  }
  int64_t patch_bytes(std::int64_t element_bytes) const {
    if (is_product()) return 0;
    const int64_t bytes = block(element_bytes) * positions() * depth() * element_bytes;
    return (bytes + 255) / 256 * 256;
  }
};

template <class T, int N>
__global__ void gather_patches(Convolution s, const T* images, int64_t n, T* patches) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= n) return;
  const int64_t row = at / s.depth(), i = at % s.depth();
  const int64_t image = row / s.positions(), position = row % s.positions();
  const int64_t tap = i / s.in, channel = i % s.in;
  const int64_t y = position / s.out_width * s.stride - s.pad + tap / s.kernel;
  const int64_t x = position % s.out_width * s.stride - s.pad + tap % s.kernel;
  Values<Acc<T>, N> v{};
  if (y >= 0 && y < s.height && x >= 0 && x < s.width) {
    v = load<N>(images + ((image * s.height + y) * s.width + x) * s.in + channel);
  }
  store<N>(patches + at, v);
}

/// dx of a pixel = resid + its gradients in all patches in which it lies, tap by tap.
template <class T, int N>
__global__ void add_patches(Convolution s, const Acc<T>* patches, const T* resid, int64_t n,
                            T* dx) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= n) return;
  const int64_t channel = at % s.in, pixel = at / s.in;
  const int64_t x = pixel % s.width, y = pixel / s.width % s.height;
  const int64_t image = pixel / s.width / s.height;
  Values<Acc<T>, N> sum{};
  if (resid != nullptr) sum = load<N>(resid + at);
  for (int64_t ky = 0; ky < s.kernel; ++ky) {
    const int64_t top = y + s.pad - ky, out_y = top / s.stride;
    if (top < 0 || top % s.stride != 0 || out_y >= s.out_height) continue;
    for (int64_t kx = 0; kx < s.kernel; ++kx) {
      const int64_t left = x + s.pad - kx, out_x = left / s.stride;
      if (left < 0 || left % s.stride != 0 || out_x >= s.out_width) continue;
      const int64_t row = (image * s.out_height + out_y) * s.out_width + out_x;
      const auto v = load<N>(patches + row * s.depth() + (ky * s.kernel + kx) * s.in + channel);
      for (int j = 0; j < N; ++j) sum[j] += v[j];
    }
  }
  store<N>(dx + at, sum);
}

/// Calls body(first image, images) for each block of the batch.
template <class Body>
void for_blocks(const Convolution& s, std::int64_t element_bytes, const Body& body) {
  const int64_t block = s.block(element_bytes);
  for (int64_t first = 0; first < s.batch; first += block) {
    body(first, smaller(block, s.batch - first));
  }
}

/// The patches of `images` images from `first` on; where a patch is one pixel, the images
/// themselves.
template <class T>
const T* patches_of(const Convolution& s, const T* x, int64_t first, int64_t images,
                    const KernelCall& call, Queue& queue) {
  x += first * s.pixels();
  if (s.is_product()) return x;
  T* const patches = reinterpret_cast<T*>(call.scratch);
  const int64_t n = images * s.positions() * s.depth();
  for_width<T>(s.in, {x, patches}, [&](auto w) {
    queue.launch({blocks_of(n, int64_t{kThreads} * w.kValue)}, {kThreads}, 0,
                 gather_patches<T, w.kValue>, s, x, n, patches);
  });
  return patches;
}

template <class T>
Ref ref(T* at, DType type) {
  return {reinterpret_cast<std::byte*>(at), type};
}

void run_forward(const KernelCall& call, Queue& queue) {
  const Convolution s(*call.kernel);
  const DType dtype = call.kernel->dtype;
  for_type(dtype, [&](auto t) {
    using T = decltype(t);
    for_blocks(s, sizeof(T), [&](int64_t first, int64_t images) {
      const T* const patches = patches_of(s, input<T>(call, 0), first, images, call, queue);
      T* const y = output<T>(call, 0) + first * s.positions() * s.out;
      multiply({images * s.positions(), s.out, s.depth(), false, true, call.kernel->tf32}, dtype,
               patches, call.in[1], {}, {}, ref(y, dtype), false, queue);
    });
  });
}

/// The products are added up in float32 before they are rounded.
void run_backward_input(const KernelCall& call, Queue& queue) {
  const Convolution s(*call.kernel);
  const DType dtype = call.kernel->dtype, sums = sum_type(dtype);
  for_type(dtype, [&](auto t) {
    using T = decltype(t);
    auto* const patches = reinterpret_cast<Acc<T>*>(call.scratch);
    for_blocks(s, sizeof(Acc<T>), [&](int64_t first, int64_t images) {
      const T* const dy = input<T>(call, 0) + first * s.positions() * s.out;
      T* const resid = input<T>(call, 2);
      T* const dx = output<T>(call, 0) + first * s.pixels();
      const GemmShape shape{images * s.positions(), s.depth(), s.out, false, false};
      if (s.is_product()) {
        return multiply(shape, dtype, dy, call.in[1], {}, ref(resid, dtype), ref(dx, dtype), false,
                        queue);
      }
      multiply(shape, dtype, dy, call.in[1], {}, {}, ref(patches, sums), false, queue);
      const T* const own = resid != nullptr ? resid + first * s.pixels() : nullptr;
      const int64_t n = images * s.pixels();
      for_width<T>(s.in, {own, dx}, [&](auto w) {
        queue.launch({blocks_of(n, int64_t{kThreads} * w.kValue)}, {kThreads}, 0,
                     add_patches<T, w.kValue>, s, patches, own, n, dx);
      });
    });
  });
}

/// Whether the sums need memory of their own: a sum over several blocks is taken in float32 and
/// rounded once.
bool sums_apart(const Convolution& s, const Kernel& kernel) {
  return size_of(kernel.out[0].dtype) == 2 && s.block(size_of(kernel.dtype)) < s.batch;
}

void run_backward_weight(const KernelCall& call, Queue& queue) {
  const Convolution s(*call.kernel);
  const DType dtype = call.kernel->dtype;
  const bool apart = sums_apart(s, *call.kernel);
  const Ref sums =
      apart ? Ref{call.scratch + s.patch_bytes(size_of(dtype)), DType::F32} : output_ref(call, 0);
  for_type(dtype, [&](auto t) {
    using T = decltype(t);
    for_blocks(s, sizeof(T), [&](int64_t first, int64_t images) {
      const T* const dy = input<T>(call, 0) + first * s.positions() * s.out;
      const T* const patches = patches_of(s, input<T>(call, 1), first, images, call, queue);
      multiply({s.out, s.depth(), images * s.positions(), true, false, call.kernel->tf32}, dtype,
               dy, patches, {}, {}, sums, first > 0 || (call.kernel->accumulate && !apart), queue);
    });
  });
  if (!apart) return;
  Kernel round;  // dw (+)= sums
  round.kind = KernelKind::ColumnSum;
  round.accumulate = call.kernel->accumulate;
  round.dims = {1, s.out * s.depth()};
  round.in = {{0, DType::F32, 0}};
  round.out = {{1, call.kernel->out[0].dtype, 0}};
  registry()[KernelKind::ColumnSum].launch({&round, {sums.at}, {call.out[0]}, nullptr, {}}, queue);
}

std::int64_t gathered(const Kernel& kernel) {
  return Convolution(kernel).patch_bytes(size_of(kernel.dtype));
}
std::int64_t products(const Kernel& kernel) {
  return Convolution(kernel).patch_bytes(size_of(sum_type(kernel.dtype)));
}
std::int64_t gathered_and_sums(const Kernel& kernel) {
  const Convolution s(kernel);
  return gathered(kernel) + (sums_apart(s, kernel) ? 4 * s.out * s.depth() : 0);
}

}  // namespace

void add_convolution(Registry& rows) {
  rows[KernelKind::Conv2dForward] = {run_forward, gathered};
  rows[KernelKind::Conv2dBackwardInput] = {run_backward_input, products};
  rows[KernelKind::Conv2dBackwardWeight] = {run_backward_weight, gathered_and_sums};
  for (const KernelKind kind : {KernelKind::Conv2dForward, KernelKind::Conv2dBackwardInput,
                                KernelKind::Conv2dBackwardWeight}) {
    rows[kind].multiplies = true;
  }
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
