// Max pooling and global average pooling over channels-last images. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_vec.hpp"
#include "core/base/window.hpp"

namespace lockstep::cpu {
namespace {

struct Pooling {
  int64_t batch, height, width, channels, kernel, stride;
  int64_t pad, out_height, out_width;
  explicit Pooling(const int64_t* d)
      : batch(d[0]),
        height(d[1]),
        width(d[2]),
        channels(d[3]),
        kernel(d[4]),
        stride(d[5]),
        pad(window_padding(d[4], d[5])),
        out_height((d[1] + d[5] - 1) / d[5]),
        out_width((d[2] + d[5] - 1) / d[5]) {}

  /// Calls f(element) for every input in the window of output (y, x), row by row; `element` is its
  /// first channel.
  template <class F>
  void for_window(int64_t image, int64_t y, int64_t x, const F& f) const {
    for (int64_t ky = 0; ky < kernel; ++ky) {
      const int64_t row = y * stride - pad + ky;
      if (row < 0 || row >= height) continue;
      for (int64_t kx = 0; kx < kernel; ++kx) {
        const int64_t col = x * stride - pad + kx;
        if (col < 0 || col >= width) continue;
        f(((image * height + row) * width + col) * channels);
      }
    }
  }
  /// Calls f(image, y, x, first channel of the output) for every output; the team splits the
  /// images.
  template <class F>
  void for_outputs(ThreadTeam& team, const F& f) const {
    parallel(team, batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * out_height * out_width; i < end * out_height * out_width; ++i) {
        f(i / out_width / out_height, i / out_width % out_height, i % out_width, i * channels);
      }
    });
  }
};

template <class T>
void run_max_pool_forward(const KernelArgs& args) {
  const Pooling s(args.dims);
  const T* const in = input<T>(args, 0);
  s.for_outputs(*args.team, [&](int64_t image, int64_t y, int64_t x, int64_t at) {
    for_vectors<T>(0, s.channels, [&](int64_t c, auto n) {
      Vec<T> best = splat(T(-__builtin_huge_val()));
      s.for_window(image, y, x, [&](int64_t from) { best = max<T>(load(in + from + c, n), best); });
      store(output<T>(args, 0) + at + c, best, n);
    });
  });
}

template <class T>
void run_max_pool_backward(const KernelArgs& args) {
  const Pooling s(args.dims);
  const T* const dy = input<T>(args, 0);
  const T* const in = input<T>(args, 1);
  T* const dx = output<T>(args, 0);
  const int64_t size = s.height * s.width * s.channels;
  parallel(*args.team, s.batch, 1, [&](int64_t begin, int64_t end) {
    __builtin_memset(dx + begin * size, 0,
                     static_cast<std::size_t>((end - begin) * size) * sizeof(T));
  });
  s.for_outputs(*args.team, [&](int64_t image, int64_t y, int64_t x, int64_t at) {
    for_vectors<T>(0, s.channels, [&](int64_t c, auto n) {
      Vec<T> best = splat(T(-__builtin_huge_val()));
      s.for_window(image, y, x, [&](int64_t from) { best = max<T>(load(in + from + c, n), best); });
      Vec<T> left = load(dy + at + c, n);  // goes to the first element that equals the largest
      s.for_window(image, y, x, [&](int64_t from) {
        const auto wins = load(in + from + c, n) == best;
        store(dx + from + c, load(dx + from + c, n) + (wins ? left : Vec<T>{}), n);
        left = wins ? Vec<T>{} : left;
      });
    });
  });
}

template <class T>
void run_average_pool_forward(const KernelArgs& args) {
  const int64_t batch = args.dims[0], positions = args.dims[1], cols = args.dims[2];
  const T share = T(1) / static_cast<T>(positions);
  parallel(*args.team, batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for_vectors<T>(0, cols, [&](int64_t c, auto n) {
        Vec<T> sum{};
        for (int64_t p = 0; p < positions; ++p) {
          sum += load(input<T>(args, 0) + (b * positions + p) * cols + c, n);
        }
        store(output<T>(args, 0) + b * cols + c, sum * share, n);
      });
    }
  });
}

template <class T>
void run_average_pool_backward(const KernelArgs& args) {
  const int64_t batch = args.dims[0], positions = args.dims[1], cols = args.dims[2];
  const T share = T(1) / static_cast<T>(positions);
  parallel(*args.team, batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for_vectors<T>(0, cols, [&](int64_t c, auto n) {
        const Vec<T> share_of_dy = load(input<T>(args, 0) + b * cols + c, n) * share;
        for (int64_t p = 0; p < positions; ++p) {
          store(output<T>(args, 0) + (b * positions + p) * cols + c, share_of_dy, n);
        }
      });
    }
  });
}

}  // namespace
}  // namespace lockstep::cpu
