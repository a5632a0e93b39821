// mma: tensor cores, used by a warp at a time: mma.sync m16n8k16 on bfloat16 with float32 sums,
// ldmatrix, and asynchronous copies to shared memory. Layouts are those of the PTX ISA, "Matrix
// Fragments for mma.m16n8k16": of the sums, lane 4 g + t of a warp holds rows g and g + 8 at
// columns 2 t and 2 t + 1.
#pragma once

#include "backends/cuda/kernels/device.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

#if defined(__CUDACC__)

/// c[16, 8] += a[16, 16] b[16, 8].
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Loads four matrices [8, 8]. Lane 8 i + r gives the address of row r of matrix i, aligned to 16
/// bytes. Lane 4 g + t receives elements 2 t and 2 t + 1 of row g of each matrix.
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], const BF16* row) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
/// Loads the transposed matrices: lane 4 g + t receives elements 2 t and 2 t + 1 of column g.
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4], const BF16* row) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

/// Begins to copy 16 bytes, or zeros, to shared memory. The copy has ended after commit_copies()
/// and wait_for_copies().
__device__ __forceinline__ void copy_async(BF16* to, const BF16* from, bool present) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  const int bytes = present ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most kPending of the groups that this thread has committed are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

#else

namespace mma_detail {
inline float half_of(std::uint32_t pair, int upper) {
  return to_float(BF16{static_cast<std::uint16_t>(upper != 0 ? pair >> 16 : pair & 0xffffu)});
}
inline void load(std::uint32_t (&r)[4], const BF16* row, bool transposed) {
  require_aligned(row, 16);
  constexpr std::size_t kAddress = sizeof(std::uintptr_t);  // what the lanes exchange
  const std::byte* lanes = emulation::begin_exchange(&row, kAddress);
  const int g = emulation::lane() / 4, t = emulation::lane() % 4;
  for (int i = 0; i < 4; ++i) {
    std::uint32_t pair = 0;
    for (int upper = 0; upper < 2; ++upper) {
      const int line = transposed ? 2 * t + upper : g, column = transposed ? g : 2 * t + upper;
      const BF16* from;
      std::memcpy(&from, lanes + 64 * (8 * i + line), kAddress);
      pair |= static_cast<std::uint32_t>(from[column].bits) << (16 * upper);
    }
    r[i] = pair;
  }
  emulation::end_exchange();
}
}  // namespace mma_detail

inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                         std::uint32_t b1) {
  const std::uint32_t own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const std::byte* lanes = emulation::begin_exchange(own, sizeof own);
  const auto element = [&](int lane, int reg, int upper) {
    std::uint32_t pair;
    std::memcpy(&pair, lanes + 64 * lane + 4 * reg, sizeof pair);
    return mma_detail::half_of(pair, upper);
  };
  const int g = emulation::lane() / 4, t = emulation::lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + 8 * (i / 2), column = 2 * t + i % 2;
    float sum = 0;
    for (int k = 0; k < 16; ++k) {
      const float x = element(row % 8 * 4 + k % 8 / 2, row / 8 + 2 * (k / 8), k % 2);
      sum += x * element(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
    }
    c[i] += sum;
  }
  emulation::end_exchange();
}
inline void load_matrices(std::uint32_t (&r)[4], const BF16* row) {
  mma_detail::load(r, row, false);
}
inline void load_matrices_transposed(std::uint32_t (&r)[4], const BF16* row) {
  mma_detail::load(r, row, true);
}
inline void copy_async(BF16* to, const BF16* from, bool present) {
  require_aligned(from, 16);
  emulation::copy_later(to, present ? from : nullptr, 16);
}
using emulation::commit_copies;
template <int kPending>
void wait_for_copies() {
  emulation::wait_for_copies(kPending);
}

#endif

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
