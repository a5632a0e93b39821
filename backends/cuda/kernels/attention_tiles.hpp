// Tiles of attention on tensor cores: how a block of threads reads rows of heads, and how a warp
// multiplies them, reduces them and reads or writes its own.
#pragma once

#include "backends/cuda/kernels/mma.hpp"
#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET::tiles {

constexpr int kThreads = 128;
constexpr int kTile = 64;  // rows of a block: 16 for each warp

/// The stride of rows of D elements: 16 bytes lie between two rows, so that ldmatrix has no bank
/// conflicts.
template <int D>
constexpr int kStride = D + 8;

/// Lane 4 g + t of a warp.
struct Lane {
  int all, g, t, warp;
  __device__ Lane()
      : all(static_cast<int>(threadIdx.x) % kWarp),
        g(all / 4),
        t(all % 4),
        warp(static_cast<int>(threadIdx.x) / kWarp) {}
};

/// Reads kRows rows to shared memory. Only the first `rows` exist; the others become zero.
template <int kRows, int D>
__device__ __forceinline__ void read_tile(BF16* to, const BF16* from, int64_t stride,
                                          int64_t rows) {
  constexpr int kChunks = D / 8;
  LOCKSTEP_UNROLL
  for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    const int r = at / kChunks, c = at % kChunks * 8;
    const bool present = r < rows;
    copy_async(to + r * kStride<D> + c, from + (present ? r : 0) * stride + c, present);
  }
}

/// c[16, kColumns] = a[16, D] b[kColumns, D]^T, both in shared memory.
template <int kColumns, int D>
__device__ __forceinline__ void row_products(const Lane& lane, const BF16* a, const BF16* b,
                                             float (&c)[kColumns / 8][4]) {
  LOCKSTEP_UNROLL
  for (int n = 0; n < kColumns / 8; ++n) {
    for (int i = 0; i < 4; ++i) c[n][i] = 0;
  }
  LOCKSTEP_UNROLL
  for (int k = 0; k < D; k += 16) {
    std::uint32_t fa[4];
    load_matrices(fa, a + lane.all % 16 * kStride<D> + k + lane.all / 16 * 8);
    LOCKSTEP_UNROLL
    for (int n = 0; n < kColumns; n += 16) {
      std::uint32_t fb[4];
      load_matrices(
          fb, b + (n + lane.all / 16 * 8 + lane.all % 8) * kStride<D> + k + lane.all / 8 % 2 * 8);
      multiply_add(c[n / 8], fa, fb[0], fb[1]);
      multiply_add(c[n / 8 + 1], fa, fb[2], fb[3]);
    }
  }
}

/// c[16, D] += w[16, kRows] b[kRows, D], with w rounded to bfloat16 and b in shared memory.
template <int kRows, int D>
__device__ __forceinline__ void add_product(const Lane& lane, const float (&w)[kRows / 8][4],
                                            const BF16* b, float (&c)[D / 8][4]) {
  LOCKSTEP_UNROLL
  for (int k = 0; k < kRows; k += 16) {
    const auto& left = w[k / 8];
    const auto& right = w[k / 8 + 1];
    const std::uint32_t fa[4] = {pack_bf16(left[0], left[1]), pack_bf16(left[2], left[3]),
                                 pack_bf16(right[0], right[1]), pack_bf16(right[2], right[3])};
    LOCKSTEP_UNROLL
    for (int n = 0; n < D; n += 16) {
      std::uint32_t fb[4];
      load_matrices_transposed(
          fb, b + (k + lane.all / 8 % 2 * 8 + lane.all % 8) * kStride<D> + n + lane.all / 16 * 8);
      multiply_add(c[n / 8], fa, fb[0], fb[1]);
      multiply_add(c[n / 8 + 1], fa, fb[2], fb[3]);
    }
  }
}

/// Stores rows g and g + 8 of c[16, D], each multiplied by its factor; a null row is not stored.
template <int D>
__device__ __forceinline__ void write_rows(const Lane& lane, const float (&c)[D / 8][4],
                                           float factor_low, float factor_high, BF16* low,
                                           BF16* high) {
  LOCKSTEP_UNROLL
  for (int n = 0; n < D / 8; ++n) {
    const int at = n * 8 + 2 * lane.t;
    if (low != nullptr) {
      *reinterpret_cast<std::uint32_t*>(low + at) =
          pack_bf16(c[n][0] * factor_low, c[n][1] * factor_low);
    }
    if (high != nullptr) {
      *reinterpret_cast<std::uint32_t*>(high + at) =
          pack_bf16(c[n][2] * factor_high, c[n][3] * factor_high);
    }
  }
}

/// The reverse, with both factors alike: c = factor times what lies there; 0 for a null row.
template <int D>
__device__ __forceinline__ void read_rows(const Lane& lane, const BF16* low, const BF16* high,
                                          float factor, float (&c)[D / 8][4]) {
  const BF16* const rows[2] = {low, high};
  for (int half = 0; half < 2; ++half) {
    if (rows[half] == nullptr) continue;
    LOCKSTEP_UNROLL
    for (int n = 0; n < D / 8; ++n) {
      for (int i = 0; i < 2; ++i) {
        c[n][2 * half + i] = factor * value(rows[half][n * 8 + 2 * lane.t + i]);
      }
    }
  }
}

/// The sum over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}
__device__ __forceinline__ float row_max(float x) {
  x = greater(x, shuffle_xor(x, 1));
  return greater(x, shuffle_xor(x, 2));
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET::tiles
