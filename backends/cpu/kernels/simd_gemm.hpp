// Matrix product: packed panels and a register-blocked micro-kernel (Goto and van de Geijn, Anatomy
// of High-Performance Matrix Multiplication, 2008). Every element of C is summed over k in the same
// order, whatever its position, the other sizes of the matrix and the number of threads.
// Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_pack.hpp"

namespace lockstep::cpu {
namespace {

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
struct Tile {
  // Accumulators fill the register file: 28 of 32 registers, or 12 of 16.
  static constexpr int kRows = LOCKSTEP_VECTOR_BYTES == 64 ? 14 : 6;
  static constexpr int kVectors = 2;
  static constexpr int kCols = kVectors * kWidth<T>;
  // The depth of a panel is large enough that a tile of C is read and written rarely.
  static constexpr int64_t kDepth = 1024 / sizeof(T);
  // A packed block of A stays in half of L2 (1 or 2 MB where AVX-512 is, at least 512 KB
  // elsewhere).
  static constexpr int64_t kBlockBytes = LOCKSTEP_VECTOR_BYTES == 64 ? 1 << 20 : 3 << 17;
};

/// What a product adds to: c = sum [+ c] [+ bias of the column] [+ resid].
template <class T>
struct Epilogue {
  bool add_c = false;
  const T* bias = nullptr;
  const T* resid = nullptr;  // [m, n], rows ld_resid apart; may be c itself
  int64_t ld_resid = 0;
};

/// Where the operands of a tile lie: by how many elements a row of A is from the next, and each
/// operand goes on from one step of the depth to the next. By default both are packed.
template <int64_t kRow, int64_t kDepthA, int64_t kDepthB>
struct Steps {
  static constexpr int64_t row = kRow, depth_a = kDepthA, depth_b = kDepthB;
};
template <class T>
using PackedSteps = Steps<1, Tile<T>::kRows, Tile<T>::kCols>;

/// Sums one tile of C over `depth`, from the first kActive rows of a panel of A and a panel of B.
template <class T, int kActive, class S>
inline void sum_tile(int64_t depth, const T* a, const T* b, const T* c, int64_t ldc, Prefetch& next,
                     Vec<T> (&sum)[Tile<T>::kRows][Tile<T>::kVectors]) {
  constexpr int kVectors = Tile<T>::kVectors;
  constexpr int kStep = 8;
  const auto multiply = [&]() __attribute__((always_inline)) {
    Vec<T> column[kVectors];
    LOCKSTEP_UNROLL
    for (int v = 0; v < kVectors; ++v) column[v] = load(b + v * kWidth<T>);
    LOCKSTEP_UNROLL
    for (int i = 0; i < kActive; ++i) {
      const Vec<T> factor = splat(a[i * S::row]);
      LOCKSTEP_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[i][v] += factor * column[v];
    }
    a += S::depth_a;
    b += S::depth_b;
  };
  int64_t k = 0;
  for (; k + kStep <= depth; k += kStep) {
    next.step();
    const int64_t line = k / kStep;  // of this tile of C, which is needed when the sums are done
    if (line < kActive * kVectors) {
      __builtin_prefetch(c + line / kVectors * ldc + line % kVectors * kWidth<T>, 0, 2);
    }
    for (int i = 0; i < kStep; ++i) multiply();
  }
  for (; k < depth; ++k) multiply();
}

/// Computes one tile of C from one panel of A and one of B; `rows` x `cols` of the tile exist.
template <class T, int kActive, class S>
inline void multiply_tile(int64_t depth, const T* a, const T* b, T* c, int64_t ldc, int rows,
                          int cols, const Epilogue<T>& epilogue, const T* bias, const T* resid,
                          Prefetch& next) {
  constexpr int kVectors = Tile<T>::kVectors;
  constexpr int kCols = Tile<T>::kCols;
  constexpr int W = kWidth<T>;
  Vec<T> sum[Tile<T>::kRows][kVectors] = {};
  sum_tile<T, kActive, S>(depth, a, b, c, ldc, next, sum);
  if (rows == kActive && cols == kCols) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < kActive; ++i) {
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
  T tile[kActive * kCols];
  LOCKSTEP_UNROLL
  for (int i = 0; i < kActive; ++i) {
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

/// The same with only as many sums as the rows need, because the last tile of a block may have few.
template <class T, class S = PackedSteps<T>, class... Rest>
inline void multiply_rows(int64_t depth, const T* a, const T* b, T* c, int64_t ldc, int rows,
                          Rest&... rest) {
  constexpr int kRows = Tile<T>::kRows;
  constexpr int kStep = kRows == 14 ? 4 : 2;
  if (rows > 2 * kStep + kStep) {
    multiply_tile<T, kRows, S>(depth, a, b, c, ldc, rows, rest...);
  } else if (rows > 2 * kStep) {
    multiply_tile<T, (3 * kStep < kRows ? 3 * kStep : kRows), S>(depth, a, b, c, ldc, rows,
                                                                 rest...);
  } else if (rows > kStep) {
    multiply_tile<T, 2 * kStep, S>(depth, a, b, c, ldc, rows, rest...);
  } else {
    multiply_tile<T, kStep, S>(depth, a, b, c, ldc, rows, rest...);
  }
}

/// Divides n into as few parts as possible of at most `most` each, and returns their common length,
/// a multiple of `grain`; n itself if one part is enough.
inline int64_t part_length(int64_t n, int64_t most, int64_t grain) {
  const int64_t parts = (n + most - 1) / most;
  return parts < 2 ? n : ((n + parts - 1) / parts + grain - 1) / grain * grain;
}

/// c[m,n] = op(a)[m,k] op(b)[k,n] with the epilogue, on the calling thread.
template <class T>
inline void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
                 const T* b, int64_t ldb, T* c, int64_t ldc, Epilogue<T> epilogue = {}) {
  using S = Tile<T>;
  const Lines<T> rows_of_a = ta ? Lines<T>{a, 1, lda} : Lines<T>{a, lda, 1};
  const Lines<T> cols_of_b = tb ? Lines<T>{b, ldb, 1} : Lines<T>{b, 1, ldb};
  // It depends on k alone, because it fixes the order of sums.
  const int64_t block_k = part_length(k > 0 ? k : 1, S::kDepth, kWidth<T>);
  const int64_t most_rows = S::kBlockBytes / static_cast<int64_t>(sizeof(T)) / S::kDepth;
  const int64_t block_m = part_length(m, most_rows / S::kRows * S::kRows, S::kRows);
  const auto bytes = [&](int64_t lines) {
    return static_cast<std::size_t>(lines * block_k + kWidth<T>) * sizeof(T);
  };
  T* const packed_a = static_cast<T*>(scratch(Scratch::PackA, bytes(block_m + S::kRows)));
  T* const packed_b = static_cast<T*>(scratch(Scratch::PackB, bytes(S::kCols)));
  for (int64_t i0 = 0; i0 < m; i0 += block_m) {
    const int64_t rows = least(m - i0, block_m);
    for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += block_k) {
      const int64_t depth = least(k - k0, block_k);
      const Epilogue<T> part = k0 == 0 ? epilogue : Epilogue<T>{true, nullptr, nullptr, 0};
      pack<T, S::kRows>(rows_of_a.at(i0, k0), rows, depth, packed_a);
      for (int64_t j = 0; j < n; j += S::kCols) {
        const int cols = static_cast<int>(least(n - j, S::kCols));
        pack<T, S::kCols>(cols_of_b.at(j, k0), cols, depth, packed_b);
        const T* const bias = part.bias ? part.bias + j : nullptr;
        Prefetch next(cols_of_b.at(j + S::kCols, k0), least(n - j - S::kCols, S::kCols), depth);
        for (int64_t i = 0; i < rows; i += S::kRows) {
          const T* const resid = part.resid ? part.resid + (i0 + i) * part.ld_resid + j : nullptr;
          multiply_rows<T>(depth, packed_a + i * depth, packed_b, c + (i0 + i) * ldc + j, ldc,
                           static_cast<int>(least(rows - i, S::kRows)), cols, part, bias, resid,
                           next);
        }
      }
    }
  }
}

/// A product of dense matrices. The team splits the larger of m and n at tile borders, and never k.
template <class T>
void team_gemm(ThreadTeam& team, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T* a,
               const T* b, T* c, const Epilogue<T>& whole) {
  const int64_t lda = ta ? m : k, ldb = tb ? k : n;
  if (n >= m) {
    parallel(team, n, Tile<T>::kCols, [&](int64_t begin, int64_t end) {
      Epilogue<T> part = whole;
      if (part.bias) part.bias += begin;
      if (part.resid) part.resid += begin;
      gemm<T>(ta, tb, m, end - begin, k, a, lda, b + (tb ? begin * ldb : begin), ldb, c + begin, n,
              part);
    });
  } else {
    parallel(team, m, Tile<T>::kRows, [&](int64_t begin, int64_t end) {
      Epilogue<T> part = whole;
      if (part.resid) part.resid += begin * n;
      gemm<T>(ta, tb, end - begin, n, k, a + (ta ? begin : begin * lda), lda, b, ldb, c + begin * n,
              n, part);
    });
  }
}

template <class T>
void run_gemm(const KernelArgs& args) {
  team_gemm<T>(*args.team, args.dims[3] != 0, args.dims[4] != 0, args.dims[0], args.dims[1],
               args.dims[2], input<T>(args, 0), input<T>(args, 1), output<T>(args, 0),
               {args.accumulate, input<T>(args, 2), input<T>(args, 3), args.dims[1]});
}

}  // namespace
}  // namespace lockstep::cpu
