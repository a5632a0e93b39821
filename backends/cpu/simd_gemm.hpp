// Matrix product: packed panels and a register-blocked micro-kernel (Goto and van de Geijn, Anatomy
// of High-Performance Matrix Multiplication, 2008). Every element of C is summed over k in one
// fixed order, whatever its position, the matrix's other sizes and the number of threads.
// Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/simd_vec.hpp"

namespace lockstep::cpu {
namespace {

template <class T>
struct Tile {
  // Accumulators fill the register file: 28 of 32 registers, or 12 of 16.
  static constexpr int kRows = LOCKSTEP_VECTOR_BYTES == 64 ? 14 : 6;
  static constexpr int kVectors = 2;
  static constexpr int kCols = kVectors * kWidth<T>;
  static constexpr int64_t kDepth = 1024 / sizeof(T);  // a panel of B stays in L1: 32 KB (AVX-512)
  static constexpr int64_t kBlockRows = 24 * kRows;    // a block of A stays in L2
  static constexpr int64_t kBlockCols = 3072 / kCols * kCols;  // a block of B: L3 or L2
};

/// What a product adds to: c = sum [+ c] [+ bias of the column] [+ resid].
template <class T>
struct Epilogue {
  bool add_c = false;
  const T* bias = nullptr;
  const T* resid = nullptr;  // [m, n], rows ld_resid apart; may be c itself
  int64_t ld_resid = 0;
};

/// Element (i, k) of op(a) or (k, j) of op(b), seen as lines (rows of op(a), columns of op(b)) by
/// depth: lines are `line_stride` apart, depth `depth_stride`; one of the two is 1.
template <class T>
struct Lines {
  const T* p;
  int64_t line_stride, depth_stride;
  Lines at(int64_t line, int64_t depth) const {
    return {p + line * line_stride + depth * depth_stride, line_stride, depth_stride};
  }
};

/// Packs `lines` x `depth` into panels of kPanel lines, each depth-major, zeros beyond the last
/// line.
template <class T, int kPanel>
inline void pack(Lines<T> source, int64_t lines, int64_t depth, T* out) {
  for (int64_t first = 0; first < lines; first += kPanel, out += kPanel * depth) {
    const int64_t count = lines - first < kPanel ? lines - first : kPanel;
    const Lines<T> panel = source.at(first, 0);
    if (count < kPanel) __builtin_memset(out, 0, sizeof(T) * kPanel * depth);
    if (source.line_stride == 1) {
      for (int64_t k = 0; k < depth; ++k) {
        const T* from = panel.p + k * panel.depth_stride;
        T* to = out + k * kPanel;
        if (count == kPanel) {
          for (int i = 0; i < kPanel; ++i) to[i] = from[i];
        } else {
          for (int64_t i = 0; i < count; ++i) to[i] = from[i];
        }
      }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        const T* from = panel.p + i * panel.line_stride;
        for (int64_t k = 0; k < depth; ++k) out[k * kPanel + i] = from[k];
      }
    }
  }
}

/// One tile of C from one panel of A and one of B; `rows` x `cols` of it exist.
template <class T>
inline void multiply_tile(int64_t depth, const T* a, const T* b, T* c, int64_t ldc, int rows,
                          int cols, const Epilogue<T>& epilogue, const T* bias, const T* resid) {
  constexpr int kRows = Tile<T>::kRows;
  constexpr int kVectors = Tile<T>::kVectors;
  constexpr int kCols = Tile<T>::kCols;
  constexpr int W = kWidth<T>;
  Vec<T> sum[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k, a += kRows, b += kCols) {
    Vec<T> column[kVectors];
    LOCKSTEP_UNROLL
    for (int v = 0; v < kVectors; ++v) column[v] = load(b + v * W);
    LOCKSTEP_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Vec<T> factor = splat(a[i]);
      LOCKSTEP_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[i][v] += factor * column[v];
    }
  }
  if (rows == kRows && cols == kCols) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < kRows; ++i) {
      LOCKSTEP_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        T* to = c + i * ldc + v * W;
        Vec<T> value = sum[i][v];
        if (bias) value += load(bias + v * W);
        if (resid) value += load(resid + i * epilogue.ld_resid + v * W);
        if (epilogue.add_c) value += load(to);
        store(to, value);
      }
    }
    return;
  }
  T tile[kRows * kCols];
  LOCKSTEP_UNROLL
  for (int i = 0; i < kRows; ++i) {
    LOCKSTEP_UNROLL
    for (int v = 0; v < kVectors; ++v) store(tile + i * kCols + v * W, sum[i][v]);
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      T value = tile[i * kCols + j];
      if (bias) value += bias[j];
      if (resid) value += resid[i * epilogue.ld_resid + j];
      if (epilogue.add_c) value += c[i * ldc + j];
      c[i * ldc + j] = value;
    }
  }
}

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// c[m,n] = op(a)[m,k] op(b)[k,n] with the epilogue, on the calling thread.
template <class T>
inline void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
                 const T* b, int64_t ldb, T* c, int64_t ldc, Epilogue<T> epilogue = {}) {
  using S = Tile<T>;
  const Lines<T> rows_of_a = ta ? Lines<T>{a, 1, lda} : Lines<T>{a, lda, 1};
  const Lines<T> cols_of_b = tb ? Lines<T>{b, ldb, 1} : Lines<T>{b, 1, ldb};
  const int64_t padded = (least(n, S::kBlockCols) + S::kCols - 1) / S::kCols * S::kCols;
  const int64_t panels = (least(m, S::kBlockRows) + S::kRows - 1) / S::kRows * S::kRows;
  const auto bytes = [&](int64_t lines) {
    return static_cast<std::size_t>(lines * S::kDepth) * sizeof(T);
  };
  T* const packed_a = static_cast<T*>(scratch(Scratch::PackA, bytes(panels)));
  T* const packed_b = static_cast<T*>(scratch(Scratch::PackB, bytes(padded)));
  for (int64_t j0 = 0; j0 < n; j0 += S::kBlockCols) {
    const int64_t block_n = least(n - j0, S::kBlockCols);
    for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += S::kDepth) {
      const int64_t depth = least(k - k0, S::kDepth);
      pack<T, S::kCols>(cols_of_b.at(j0, k0), block_n, depth, packed_b);
      Epilogue<T> part = epilogue;
      if (k0 > 0) part = Epilogue<T>{true, nullptr, nullptr, 0};
      for (int64_t i0 = 0; i0 < m; i0 += S::kBlockRows) {
        const int64_t block_m = least(m - i0, S::kBlockRows);
        pack<T, S::kRows>(rows_of_a.at(i0, k0), block_m, depth, packed_a);
        for (int64_t j = 0; j < block_n; j += S::kCols) {
          const T* const bias = part.bias ? part.bias + j0 + j : nullptr;
          for (int64_t i = 0; i < block_m; i += S::kRows) {
            const T* const resid =
                part.resid ? part.resid + (i0 + i) * part.ld_resid + j0 + j : nullptr;
            multiply_tile<T>(depth, packed_a + i * depth, packed_b + j * depth,
                             c + (i0 + i) * ldc + j0 + j, ldc,
                             static_cast<int>(least(block_m - i, S::kRows)),
                             static_cast<int>(least(block_n - j, S::kCols)), part, bias, resid);
          }
        }
      }
    }
  }
}

/// Kernel gemm: the team splits the larger of m and n at tile borders, never k.
template <class T>
void run_gemm(const KernelArgs& args) {
  const int64_t m = args.dims[0], n = args.dims[1], k = args.dims[2];
  const bool ta = args.dims[3] != 0, tb = args.dims[4] != 0;
  const T* const a = input<T>(args, 0);
  const T* const b = input<T>(args, 1);
  const int64_t lda = ta ? m : k, ldb = tb ? k : n;
  T* const c = output<T>(args, 0);
  const Epilogue<T> whole{args.accumulate, input<T>(args, 2), input<T>(args, 3), n};
  if (n >= m) {
    parallel(*args.team, n, Tile<T>::kCols, [&](int64_t begin, int64_t end) {
      Epilogue<T> part = whole;
      if (part.bias) part.bias += begin;
      if (part.resid) part.resid += begin;
      gemm<T>(ta, tb, m, end - begin, k, a, lda, b + (tb ? begin * ldb : begin), ldb, c + begin, n,
              part);
    });
  } else {
    parallel(*args.team, m, Tile<T>::kRows, [&](int64_t begin, int64_t end) {
      Epilogue<T> part = whole;
      if (part.resid) part.resid += begin * n;
      gemm<T>(ta, tb, end - begin, n, k, a + (ta ? begin : begin * lda), lda, b, ldb, c + begin * n,
              n, part);
    });
  }
}

}  // namespace
}  // namespace lockstep::cpu
