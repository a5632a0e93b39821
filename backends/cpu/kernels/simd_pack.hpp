// Packing of a matrix product's operands into panels. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_vec.hpp"

namespace lockstep::cpu {
namespace {

/// An operand as lines by depth. Lines are the rows of op(a) or the columns of op(b), `line_stride`
/// elements apart; along the depth k, elements are `depth_stride` apart. One of the two strides is
/// 1.
template <class T>
struct Lines {
  const T* p;
  int64_t line_stride, depth_stride;
  Lines at(int64_t line, int64_t depth) const {
    return {p + line * line_stride + depth * depth_stride, line_stride, depth_stride};
  }
};

template <int... I>
struct Lanes {};
template <int N, int... I>
struct LanesUpTo : LanesUpTo<N - 1, N - 1, I...> {};
template <int... I>
struct LanesUpTo<0, I...> {
  using type = Lanes<I...>;
};

/// Zips the low halves of two vectors to a0 b0 a1 b1 …; with kFrom = width / 2, the high halves.
template <class T, int kFrom, int... I>
inline Vec<T> zip(Vec<T> a, Vec<T> b, Lanes<I...>) {
  return __builtin_shufflevector(a, b, (kFrom + I / 2 + I % 2 * kWidth<T>)...);
}

/// Transposes a square of one vector width in registers, by zipping halves log2(width) times.
template <class T>
inline void transpose(Vec<T> (&rows)[kWidth<T>]) {
  constexpr int W = kWidth<T>;
  using All = typename LanesUpTo<W>::type;
  LOCKSTEP_UNROLL
  for (int width = 1; width < W; width *= 2) {
    Vec<T> zipped[W];
    LOCKSTEP_UNROLL
    for (int i = 0; i < W / 2; ++i) {
      zipped[2 * i] = zip<T, 0>(rows[i], rows[i + W / 2], All{});
      zipped[2 * i + 1] = zip<T, W / 2>(rows[i], rows[i + W / 2], All{});
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < W; ++i) rows[i] = zipped[i];
  }
}

// GCC 12 takes the last loop of pack_transposed for one without an end where the depth is a
// constant, a multiple of a vector's width, so that the loop has nothing to do.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Waggressive-loop-optimizations"
#endif
/// Packs one panel whose depth is contiguous. Writes whole vectors, so that up to a vector of zeros
/// lies beyond the panel's end, which the next panel overwrites.
template <class T, int kPanel, bool kFull>
inline void pack_transposed(const T* from, int64_t stride, int64_t count, int64_t depth, T* out) {
  constexpr int W = kWidth<T>;
  constexpr int kGroups = (kPanel + W - 1) / W;
  int64_t k = 0;
  for (; k + W <= depth; k += W) {
    Vec<T> block[kGroups][W];
    LOCKSTEP_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < W; ++i) {
        const int line = g * W + i;
        block[g][i] =
            line < kPanel && (kFull || line < count) ? load(from + line * stride + k) : Vec<T>{};
      }
      transpose<T>(block[g]);
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < W; ++i) {
      LOCKSTEP_UNROLL
      for (int g = 0; g < kGroups; ++g) store(out + (k + i) * kPanel + g * W, block[g][i]);
    }
  }
  for (; k < depth; ++k) {
    for (int i = 0; i < kPanel; ++i) {
      out[k * kPanel + i] = i < count ? from[i * stride + k] : T(0);
    }
  }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/// Packs `lines` x `depth` elements into depth-major panels of kPanel lines, with zeros beyond the
/// last line.
template <class T, int kPanel>
inline void pack(Lines<T> source, int64_t lines, int64_t depth, T* out) {
  for (int64_t first = 0; first < lines; first += kPanel, out += kPanel * depth) {
    const int64_t count = lines - first < kPanel ? lines - first : kPanel;
    const Lines<T> panel = source.at(first, 0);
    if (panel.line_stride != 1 && count == kPanel) {
      pack_transposed<T, kPanel, true>(panel.p, panel.line_stride, count, depth, out);
    } else if (panel.line_stride != 1) {
      pack_transposed<T, kPanel, false>(panel.p, panel.line_stride, count, depth, out);
    } else if (count == kPanel) {
      for (int64_t k = 0; k < depth; ++k) {
        __builtin_memcpy(out + k * kPanel, panel.p + k * panel.depth_stride, kPanel * sizeof(T));
      }
    } else {
      for (int64_t k = 0; k < depth; ++k) {
        for (int i = 0; i < kPanel; ++i) {
          out[k * kPanel + i] = i < count ? panel.p[k * panel.depth_stride + i] : T(0);
        }
      }
    }
  }
}

/// Prefetches the source of the next panel of B, one cache line at a time, while the tiles of this
/// panel are computed, so that packing finds it in L2. It asks for one line per few
/// multiplications, because requests that wait for memory hold the buffers that the
/// multiplications' own loads need.
class Prefetch {
 public:
  Prefetch() = default;  // of nothing
  template <class T>
  Prefetch(Lines<T> source, int64_t lines, int64_t depth) {
    const bool by_depth = source.line_stride == 1;
    row_ = reinterpret_cast<const char*>(source.p);
    stride_ = (by_depth ? source.depth_stride : source.line_stride) * sizeof(T);
    rows_ = lines > 0 ? (by_depth ? depth : lines) : 0;
    bytes_ = (by_depth ? lines : depth) * sizeof(T);
  }
  bool done() const { return rows_ == 0; }
  void step() {
    if (done()) return;
    __builtin_prefetch(row_ + at_, 0, 2);
    at_ += 64;
    if (at_ >= bytes_) {
      at_ = 0;
      row_ += stride_;
      --rows_;
    }
  }

 private:
  const char* row_ = nullptr;
  int64_t stride_ = 0, rows_ = 0, bytes_ = 0, at_ = 0;
};

}  // namespace
}  // namespace lockstep::cpu
