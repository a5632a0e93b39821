// Products and attention of bfloat16 on tiles (amx_tiles.hpp). Every element of a product is summed
// over k in the same order, whatever its position and the number of threads. Compiled with AMX; see
// cmake/LockstepCpuKernels.cmake.
#include "backends/cpu/kernels/kernel_table.hpp"

#if defined(__x86_64__) && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/cpu/kernels/amx_attention.hpp"
#include "backends/cpu/kernels/amx_tiles.hpp"

namespace lockstep::cpu {
namespace {

constexpr int64_t kMostDepth = 2048;                // of packed lines; it fixes no order of sums
constexpr int64_t kPackedBytes = int64_t{1} << 20;  // of rows of A: half of L2

/// A matrix or a row in memory, whose elements are bfloat16 or float32.
struct Mixed {
  std::byte* p = nullptr;
  bool narrow = false;
  Bits* bits(int64_t at) const { return reinterpret_cast<Bits*>(p) + at; }
  float* floats(int64_t at) const { return reinterpret_cast<float*>(p) + at; }

  /// `n` elements from `at` on, at most 16.
  Vec<float> values(int64_t at, int64_t n) const {
    const Part part{static_cast<int>(n)};
    if (narrow) return load_values(bits(at), part);
    return n == kSide ? load(floats(at)) : load(floats(at), part);
  }
  void put(int64_t at, int64_t n, Vec<float> value) const {
    const Part part{static_cast<int>(n)};
    if (narrow) return store_values(bits(at), value, part);
    n == kSide ? store(floats(at), value) : store(floats(at), value, part);
  }
};

/// A Gemm of bfloat16 matrices (core/ir/kernels/dense.cpp).
struct TileGemm {
  explicit TileGemm(const KernelArgs& args)
      : m(args.dims[0]),
        n(args.dims[1]),
        k(args.dims[2]),
        a(reinterpret_cast<const Bits*>(args.in[0])),
        b(reinterpret_cast<const Bits*>(args.in[1])),
        bias{args.in[2], args.in_bf16[2]},
        resid{args.in[3], args.in_bf16[3]},
        c{args.out[0], args.out_bf16[0]},
        accumulate(args.accumulate),
        rows_of_a(args.dims[3] != 0 ? Lines<Bits>{a, 1, m} : Lines<Bits>{a, k, 1}),
        columns_of_b(args.dims[4] != 0 ? Lines<Bits>{b, k, 1} : Lines<Bits>{b, 1, n}) {}

  /// Computes rows [i_begin, i_end) and columns [j_begin, j_end) of C on the calling thread.
  void run(int64_t i_begin, int64_t i_end, int64_t j_begin, int64_t j_end) const {
    const TileRegisters registers;
    const int64_t block_k = part_length(k > 0 ? k : 1, kMostDepth, kDepth);
    const int64_t line = padded(block_k, kDepth), width = padded(j_end - j_begin, kBlock);
    const int64_t fitting = kPackedBytes / (line * 2) / kBlock * kBlock;
    const int64_t most = least(fitting, padded(i_end - i_begin, kBlock));  // rows packed at a time
    const auto bytes = [](int64_t n, std::size_t each) {
      return static_cast<std::size_t>(n) * each;
    };
    Bits* const packed_a =
        static_cast<Bits*>(scratch(Scratch::PackA, bytes(most * line, sizeof(Bits))));
    Bits* const packed_b =
        static_cast<Bits*>(scratch(Scratch::PackB, bytes(kBlock * line, sizeof(Bits))));
    // Of all blocks where the sums go on after a part of k, else of the one at hand.
    const bool parts = block_k < k;
    float* const sums = static_cast<float*>(
        scratch(Scratch::Tiles, bytes(parts ? most * width : kBlock * kBlock, sizeof(float))));
    for (int64_t i0 = i_begin; i0 < i_end; i0 += most) {
      const int64_t rows = least(most, i_end - i0);
      for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += block_k) {
        const int64_t depth = least(block_k, k - k0), steps = padded(depth, kDepth) / kDepth;
        pack_tiles(rows_of_a.at(i0, k0), rows, depth, false, packed_a);
        for (int64_t j = j_begin; j < j_end; j += kBlock) {
          pack_tiles(columns_of_b.at(j, k0), least(kBlock, j_end - j), depth, true, packed_b);
          for (int64_t i = 0; i < rows; i += kBlock) {
            float* const block = parts ? sums + i * width + (j - j_begin) * kBlock : sums;
            sum_block(steps, packed_a + i * steps * kDepth, packed_b, block, kBlock, k0 > 0);
            if (k0 + block_k < k) continue;
            for (int64_t r = 0; r < least(kBlock, rows - i); ++r) {
              for (int64_t v = 0; v < least(kBlock, j_end - j); v += kSide) {
                finish(block + r * kBlock + v, i0 + i + r, j + v, least(kSide, j_end - j - v));
              }
            }
          }
        }
      }
    }
  }

  /// Stores `count` sums of row i from column j on, with all that C adds to them.
  void finish(const float* sums, int64_t i, int64_t j, int64_t count) const {
    Vec<float> value = load(sums);
    if (bias.p) value += bias.values(j, count);
    if (resid.p) value += resid.values(i * n + j, count);
    if (accumulate) value += c.values(i * n + j, count);
    c.put(i * n + j, count, value);
  }

  int64_t m, n, k;
  const Bits *a, *b;
  Mixed bias, resid, c;
  bool accumulate;
  Lines<Bits> rows_of_a, columns_of_b;
};

/// The team splits the larger of m and n at borders of blocks, and never k.
void run_tile_gemm(const KernelArgs& args) {
  const TileGemm gemm(args);
  if (gemm.n >= gemm.m) {
    parallel(*args.team, gemm.n, kBlock,
             [&](int64_t begin, int64_t end) { gemm.run(0, gemm.m, begin, end); });
  } else {
    parallel(*args.team, gemm.m, kBlock,
             [&](int64_t begin, int64_t end) { gemm.run(begin, end, 0, gemm.n); });
  }
}

/// Every processor with tiles of bfloat16 has vectors that are rounded to it, too.
bool processor_has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBfloat16 = 1u << 22, kTiles = 1u << 24, kVectorBfloat16 = 1u << 5;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBfloat16) != 0 &&
         (d & kTiles) != 0 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a & kVectorBfloat16) != 0;
}

/// The system keeps the tiles of a process only if it has asked (Linux 5.16 and later).
bool system_keeps_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

Bf16Functions bf16_tile_functions() {
  if (!processor_has_tiles() || !system_keeps_tiles()) return {};
  return {run_tile_gemm, run_tile_attention_forward, run_tile_attention_backward};
}

}  // namespace lockstep::cpu
#else
lockstep::cpu::Bf16Functions lockstep::cpu::bf16_tile_functions() { return {}; }
#endif
