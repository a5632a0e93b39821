// 2-D convolution over channels-last images as matrix products. Forward, patches of the image are
// gathered into rows (im2col; Chellapilla et al. 2006), a block at a time, and multiplied by the
// weights; backward, products are added back into the image. Where a patch is one position, the
// image itself is the matrix. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_gemm.hpp"
#include "core/base/window.hpp"

namespace lockstep::cpu {
namespace {

struct Convolution {
  int64_t batch, height, width, in, out, kernel, stride;
  int64_t pad, out_height, out_width;
  explicit Convolution(const int64_t* d)
      : batch(d[0]),
        height(d[1]),
        width(d[2]),
        in(d[3]),
        out(d[4]),
        kernel(d[5]),
        stride(d[6]),
        pad(window_padding(d[5], d[6])),
        out_height((d[1] + d[6] - 1) / d[6]),
        out_width((d[2] + d[6] - 1) / d[6]) {}
  int64_t positions() const { return out_height * out_width; }
  int64_t rows() const { return batch * positions(); }
  int64_t depth() const { return kernel * kernel * in; }  // elements of a patch
  bool is_product() const { return kernel == 1 && stride == 1; }
  /// How many patches are gathered at a time: about 256 K elements, and a multiple of every panel's
  /// depth, so that the order of sums over rows depends on the convolution only.
  int64_t block() const {
    const int64_t fitting = (int64_t{1} << 18) / (depth() > 0 ? depth() : 1) / 256 * 256;
    return fitting > 256 ? fitting : 256;
  }
};

/// Calls f(patch element, image element, count) for each run of channels among patch elements
/// [begin, end) of output position `row`. The image element is -1 outside the image.
template <class F>
inline void for_patch(const Convolution& s, int64_t row, int64_t begin, int64_t end, const F& f) {
  const int64_t image = row / s.positions(), position = row % s.positions();
  const int64_t top = position / s.out_width * s.stride - s.pad;
  const int64_t left = position % s.out_width * s.stride - s.pad;
  for (int64_t i = begin; i < end;) {
    const int64_t tap = i / s.in, channel = i % s.in;
    const int64_t count = least(s.in - channel, end - i);
    const int64_t y = top + tap / s.kernel, x = left + tap % s.kernel;
    const bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
    f(i, inside ? ((image * s.height + y) * s.width + x) * s.in + channel : int64_t{-1}, count);
    i += count;
  }
}

/// Gathers elements [begin, end) of the patches of output positions [first, last), row by row.
template <class T>
inline void gather_patches(const Convolution& s, const T* image, int64_t first, int64_t last,
                           int64_t begin, int64_t end, T* out) {
  for (int64_t row = first; row < last; ++row, out += end - begin) {
    for_patch(s, row, begin, end, [&](int64_t i, int64_t from, int64_t count) {
      const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
      if (from < 0) {
        __builtin_memset(out + i - begin, 0, bytes);
      } else {
        __builtin_memcpy(out + i - begin, image + from, bytes);
      }
    });
  }
}

template <class T>
inline T* patch_scratch(int64_t rows, int64_t cols) {
  return static_cast<T*>(
      scratch(Scratch::Tiles, static_cast<std::size_t>(rows * cols) * sizeof(T)));
}

template <class T>
void run_conv2d_forward(const KernelArgs& args) {
  const Convolution s(args.dims);
  const T* const x = input<T>(args, 0);
  const T* const w = input<T>(args, 1);
  T* const y = output<T>(args, 0);
  const int64_t depth = s.depth();
  parallel(*args.team, s.rows(), s.block(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += s.block()) {
      const int64_t last = least(row + s.block(), end);
      const T* patches = x + row * depth;
      if (!s.is_product()) {
        T* const gathered = patch_scratch<T>(s.block(), depth);
        gather_patches(s, x, row, last, 0, depth, gathered);
        patches = gathered;
      }
      gemm<T>(false, true, last - row, s.out, depth, patches, depth, w, depth, y + row * s.out,
              s.out);
    }
  });
}

/// Computes dx of a whole image, so that one thread adds everything that falls on an element, in
/// the order of rows.
template <class T>
inline void scatter_input_gradient(const Convolution& s, const T* dy, const T* w, const T* resid,
                                   int64_t image, T* dx) {
  const int64_t depth = s.depth(), size = s.height * s.width * s.in;
  T* const mine = dx + image * size;
  const auto bytes = static_cast<std::size_t>(size) * sizeof(T);
  if (resid == nullptr) {
    __builtin_memset(mine, 0, bytes);
  } else if (resid != dx) {
    __builtin_memcpy(mine, resid + image * size, bytes);
  }
  T* const products = patch_scratch<T>(s.block(), depth);
  const int64_t end = (image + 1) * s.positions();
  for (int64_t row = image * s.positions(); row < end; row += s.block()) {
    const int64_t last = least(row + s.block(), end);
    gemm<T>(false, false, last - row, depth, s.out, dy + row * s.out, s.out, w, depth, products,
            depth);
    for (int64_t r = row; r < last; ++r) {
      const T* const patch = products + (r - row) * depth;
      for_patch(s, r, 0, depth, [&](int64_t i, int64_t to, int64_t count) {
        if (to < 0) return;
        for_vectors<T>(0, count, [&](int64_t c, auto n) {
          store(dx + to + c, load(dx + to + c, n) + load(patch + i + c, n), n);
        });
      });
    }
  }
}

template <class T>
void run_conv2d_backward_input(const KernelArgs& args) {
  const Convolution s(args.dims);
  const T* const dy = input<T>(args, 0);
  const T* const w = input<T>(args, 1);
  const T* const resid = input<T>(args, 2);
  T* const dx = output<T>(args, 0);
  if (s.is_product()) {
    parallel(*args.team, s.rows(), s.block(), [&](int64_t begin, int64_t end) {
      Epilogue<T> epilogue;
      if (resid) epilogue.resid = resid + begin * s.in;
      epilogue.ld_resid = s.in;
      gemm<T>(false, false, end - begin, s.in, s.out, dy + begin * s.out, s.out, w, s.in,
              dx + begin * s.in, s.in, epilogue);
    });
    return;
  }
  parallel(*args.team, s.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) scatter_input_gradient(s, dy, w, resid, i, dx);
  });
}

/// The team splits the columns of dw. Each thread sums over all rows, a block at a time.
template <class T>
void run_conv2d_backward_weight(const KernelArgs& args) {
  const Convolution s(args.dims);
  const T* const dy = input<T>(args, 0);
  const T* const x = input<T>(args, 1);
  T* const dw = output<T>(args, 0);
  const int64_t depth = s.depth();
  parallel(*args.team, depth, Tile<T>::kCols, [&](int64_t begin, int64_t end) {
    Epilogue<T> epilogue;
    epilogue.add_c = args.accumulate;
    for (int64_t row = 0; row < s.rows(); row += s.block()) {
      const int64_t last = least(row + s.block(), s.rows());
      const T* patches = x + row * depth + begin;
      int64_t stride = depth;
      if (!s.is_product()) {
        T* const gathered = patch_scratch<T>(s.block(), end - begin);
        gather_patches(s, x, row, last, begin, end, gathered);
        patches = gathered;
        stride = end - begin;
      }
      gemm<T>(true, false, s.out, end - begin, last - row, dy + row * s.out, s.out, patches, stride,
              dw + begin, depth, epilogue);
      epilogue.add_c = true;
    }
  });
}

}  // namespace
}  // namespace lockstep::cpu
