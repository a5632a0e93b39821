// Max pooling and global average pooling over channels-last images. A thread takes an output
// element and a pack of channels. Gradients are gathered by the element that gets them, never
// scattered.
#include "backends/cuda/kernels/registry.hpp"
#include "core/base/window.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;

struct Window {
  int64_t batch, height, width, channels, kernel, stride;
  int64_t pad, out_height, out_width;
  explicit Window(const Kernel& k)
      : batch(k.dims[0]),
        height(k.dims[1]),
        width(k.dims[2]),
        channels(k.dims[3]),
        kernel(k.dims[4]),
        stride(k.dims[5]),
        pad(window_padding(k.dims[4], k.dims[5])),
        out_height((k.dims[1] + k.dims[5] - 1) / k.dims[5]),
        out_width((k.dims[2] + k.dims[5] - 1) / k.dims[5]) {}
  __host__ __device__ int64_t inputs() const { return batch * height * width * channels; }
  __host__ __device__ int64_t outputs() const { return batch * out_height * out_width * channels; }

  /// Calls f(first channel of an input) for the inputs of a window, row by row.
  template <class F>
  __device__ void for_inputs(int64_t image, int64_t out_y, int64_t out_x, const F& f) const {
    for (int64_t ky = 0; ky < kernel; ++ky) {
      const int64_t y = out_y * stride - pad + ky;
      if (y < 0 || y >= height) continue;
      for (int64_t kx = 0; kx < kernel; ++kx) {
        const int64_t x = out_x * stride - pad + kx;
        if (x >= 0 && x < width) f(((image * height + y) * width + x) * channels);
      }
    }
  }
};

template <class T, int N>
__global__ void max_pool(Window s, const T* x, T* y) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= s.outputs()) return;
  const int64_t c = at % s.channels, position = at / s.channels;
  Values<Acc<T>, N> best;
  for (int j = 0; j < N; ++j) best[j] = -infinity<Acc<T>>();
  s.for_inputs(position / s.out_width / s.out_height, position / s.out_width % s.out_height,
               position % s.out_width, [&](int64_t from) {
                 const auto v = load<N>(x + from + c);
                 for (int j = 0; j < N; ++j) best[j] = greater(best[j], v[j]);
               });
  store<N>(y + at, best);
}

/// An input gets the gradient of every window whose first largest element it is.
template <class T>
__global__ void max_pool_backward(Window s, const T* dy, const T* x, T* dx) {
  using A = Acc<T>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= s.inputs()) return;
  const int64_t c = at % s.channels, pixel = at / s.channels;
  const int64_t own_x = pixel % s.width, own_y = pixel / s.width % s.height;
  const int64_t image = pixel / s.width / s.height;
  // The windows that contain this pixel: from the first that reaches it to the last that begins
  // before its end.
  const auto first = [&](int64_t own) {
    const int64_t begin = own + s.pad - s.kernel + 1;
    return begin > 0 ? (begin + s.stride - 1) / s.stride : int64_t{0};
  };
  const int64_t last_y = smaller(s.out_height - 1, (own_y + s.pad) / s.stride);
  const int64_t last_x = smaller(s.out_width - 1, (own_x + s.pad) / s.stride);
  A sum = 0;
  for (int64_t out_y = first(own_y); out_y <= last_y; ++out_y) {
    for (int64_t out_x = first(own_x); out_x <= last_x; ++out_x) {
      A best = -infinity<A>();
      int64_t winner = -1;
      s.for_inputs(image, out_y, out_x, [&](int64_t from) {
        const A v = value(x[from + c]);
        if (winner >= 0 && !(v > best)) return;
        best = v;
        winner = from + c;
      });
      if (winner != at) continue;
      sum += value(dy[((image * s.out_height + out_y) * s.out_width + out_x) * s.channels + c]);
    }
  }
  put(dx[at], sum);
}

template <class T>
__global__ void average_pool(int64_t batch, int64_t positions, int64_t cols, const T* x, T* y) {
  using A = Acc<T>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= batch * cols) return;
  const T* const from = x + at / cols * positions * cols + at % cols;
  A sum = 0;
  for (int64_t p = 0; p < positions; ++p) sum += value(from[p * cols]);
  put(y[at], sum * (A(1) / static_cast<A>(positions)));
}

template <class T, int N>
__global__ void average_pool_backward(int64_t batch, int64_t positions, int64_t cols, const T* dy,
                                      T* dx) {
  using A = Acc<T>;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= batch * positions * cols) return;
  auto v = load<N>(dy + at / cols / positions * cols + at % cols);
  for (int j = 0; j < N; ++j) v[j] *= A(1) / static_cast<A>(positions);
  store<N>(dx + at, v);
}

void run_max_pool(const KernelCall& call, Queue& queue) {
  const Window s(*call.kernel);
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    for_width<T>(s.channels, {call.in[0], call.out[0]}, [&](auto w) {
      queue.launch({blocks_of(s.outputs(), int64_t{kThreads} * w.kValue)}, {kThreads}, 0,
                   max_pool<T, w.kValue>, s, input<T>(call, 0), output<T>(call, 0));
    });
  });
}

void run_max_pool_backward(const KernelCall& call, Queue& queue) {
  const Window s(*call.kernel);
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({blocks_of(s.inputs(), kThreads)}, {kThreads}, 0, max_pool_backward<T>, s,
                 input<T>(call, 0), input<T>(call, 1), output<T>(call, 0));
  });
}

void run_average_pool(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({blocks_of(d[0] * d[2], kThreads)}, {kThreads}, 0, average_pool<T>, d[0], d[1],
                 d[2], input<T>(call, 0), output<T>(call, 0));
  });
}

void run_average_pool_backward(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    for_width<T>(d[2], {call.in[0], call.out[0]}, [&](auto w) {
      queue.launch({blocks_of(d[0] * d[1] * d[2], int64_t{kThreads} * w.kValue)}, {kThreads}, 0,
                   average_pool_backward<T, w.kValue>, d[0], d[1], d[2], input<T>(call, 0),
                   output<T>(call, 0));
    });
  });
}

}  // namespace

void add_pooling(Registry& rows) {
  rows[KernelKind::MaxPoolForward] = {run_max_pool};
  rows[KernelKind::MaxPoolBackward] = {run_max_pool_backward};
  rows[KernelKind::AveragePoolForward] = {run_average_pool};
  rows[KernelKind::AveragePoolBackward] = {run_average_pool_backward};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
