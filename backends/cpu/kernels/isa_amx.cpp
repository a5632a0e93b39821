// Products of bfloat16 on tiles (Intel AMX, Intel 64 and IA-32 Architectures Software Developer's
// Manual, vol. 1, ch. 18): registers of 16 rows of 64 bytes, and an instruction that adds the
// product of a tile [16, 32] and a tile of 16 pairs [16, 16, 2] to one of float32 [16, 16].
// Products are exact, and every element of C is summed over k in the same order, whatever its
// position and the number of threads; subnormal operands and sums count as zero. Compiled with AMX;
// see cmake/LockstepCpuKernels.cmake.
#include "backends/cpu/kernels/kernel_table.hpp"

#if defined(__x86_64__) && defined(__AMX_BF16__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/cpu/kernels/simd_gemm.hpp"

namespace lockstep::cpu {
namespace {

constexpr int64_t kSide = 16;                       // rows of a tile, and columns of a tile of sums
constexpr int64_t kDepth = 32;                      // elements of a row of a tile
constexpr int64_t kTile = kSide * kDepth;           // elements
constexpr int64_t kBlock = 2 * kSide;               // rows and columns that are summed at a time
constexpr int64_t kMostDepth = 2048;                // of packed lines; it fixes no order of sums
constexpr int64_t kPackedBytes = int64_t{1} << 20;  // of rows of A: half of L2

using Bits = std::uint16_t;  // of a bfloat16

int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

typedef Bits Halves __attribute__((vector_size(32)));          // of 16 float32
typedef std::uint32_t Words __attribute__((vector_size(64)));  // the bits of 16 float32

Words widened(const Bits* p, int64_t n = kSide) {
  Halves halves{};
  __builtin_memcpy(&halves, p, static_cast<std::size_t>(n) * sizeof(Bits));
  return __builtin_convertvector(halves, Words);
}

/// Packs up to 16 lines by 32 elements of depth into one tile, with zeros beyond them: line by
/// line, or pair of neighbours in depth by pair.
void pack_tile(Lines<Bits> source, int64_t lines, int64_t depth, bool by_pairs, Bits* out) {
  Bits padded[kTile];
  const bool by_lines = source.depth_stride == 1;
  if (lines < kSide || depth < kDepth) {
    __builtin_memset(padded, 0, sizeof padded);
    for (int64_t i = 0; i < (by_lines ? lines : depth); ++i) {
      __builtin_memcpy(padded + i * (by_lines ? kDepth : kSide),
                       source.p + i * (by_lines ? source.line_stride : source.depth_stride),
                       static_cast<std::size_t>(by_lines ? depth : lines) * sizeof(Bits));
    }
    source = by_lines ? Lines<Bits>{padded, kDepth, 1} : Lines<Bits>{padded, 1, kSide};
  }
  Vec<float> block[kSide];  // of pairs, which are moved as if they were float32
  for (int i = 0; i < kSide; ++i) {
    if (by_lines) {
      __builtin_memcpy(&block[i], source.p + i * source.line_stride, sizeof block[i]);
    } else {
      const Bits* const pair = source.p + 2 * i * source.depth_stride;
      block[i] = (Vec<float>)(widened(pair) | widened(pair + source.depth_stride) << 16);
    }
  }
  if (by_lines == by_pairs) transpose<float>(block);
  __builtin_memcpy(out, block, sizeof block);
}

/// Packs lines into pairs of tiles, one pair after the other along the depth.
void pack_tiles(Lines<Bits> source, int64_t lines, int64_t k, bool by_pairs, Bits* out) {
  for (int64_t i = 0; i < lines; i += kBlock) {
    for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
      for (int64_t first = i; first < i + kBlock; first += kSide, out += kTile) {
        const int64_t count = lines - first;
        if (count <= 0) {
          __builtin_memset(out, 0, kTile * sizeof(Bits));
        } else {
          pack_tile(source.at(first, k0), least(count, kSide), least(k - k0, kDepth), by_pairs,
                    out);
        }
      }
    }
  }
}

/// The tiles of the present thread: eight of 16 rows of 64 bytes.
class TileRegisters {
 public:
  TileRegisters() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes_of_row[16] = {};
      std::uint8_t rows[16] = {};
    } config;
    for (int t = 0; t < 8; ++t) {
      config.bytes_of_row[t] = 64;
      config.rows[t] = kSide;
    }
    _tile_loadconfig(&config);
  }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

/// sums[32, 32] = [sums +] the product of two rows and two columns of tiles.
void sum_block(int64_t steps, const Bits* a, const Bits* b, float* sums, bool add) {
  constexpr int64_t kRow = kBlock * sizeof(float);
  float* const lower = sums + kSide * kBlock;
  if (add) {
    _tile_loadd(0, sums, kRow);
    _tile_loadd(1, sums + kSide, kRow);
    _tile_loadd(2, lower, kRow);
    _tile_loadd(3, lower + kSide, kRow);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t k = 0; k < steps; ++k, a += 2 * kTile, b += 2 * kTile) {
    _tile_loadd(4, a, kDepth * sizeof(Bits));
    _tile_loadd(5, a + kTile, kDepth * sizeof(Bits));
    _tile_loadd(6, b, kDepth * sizeof(Bits));
    _tile_loadd(7, b + kTile, kDepth * sizeof(Bits));
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, kRow);
  _tile_stored(1, sums + kSide, kRow);
  _tile_stored(2, lower, kRow);
  _tile_stored(3, lower + kSide, kRow);
}

/// A matrix or a row in memory, whose elements are bfloat16 or float32.
struct Mixed {
  std::byte* p = nullptr;
  bool narrow = false;
  Bits* bits(int64_t at) const { return reinterpret_cast<Bits*>(p) + at; }
  float* floats(int64_t at) const { return reinterpret_cast<float*>(p) + at; }

  /// `n` elements from `at` on, at most 16.
  Vec<float> values(int64_t at, int64_t n) const {
    if (narrow) return (Vec<float>)(widened(bits(at), n) << 16);
    return n == kSide ? load(floats(at)) : load(floats(at), Part{static_cast<int>(n)});
  }
  /// Rounds to nearest, ties to even; NaNs stay NaNs (core/base/bfloat16.hpp).
  void put(int64_t at, int64_t n, Vec<float> value) const {
    if (!narrow) {
      return n == kSide ? store(floats(at), value)
                        : store(floats(at), value, Part{static_cast<int>(n)});
    }
    const Words wide = (Words)value, upper = wide >> 16;
    const Words nearest = (wide + 0x7fffu + (upper & 1u)) >> 16;
    const auto is_nan = (wide & 0x7fffffffu) > 0x7f800000u;
    const Halves halves = __builtin_convertvector(is_nan ? upper | 0x40u : nearest, Halves);
    __builtin_memcpy(bits(at), &halves, static_cast<std::size_t>(n) * sizeof(Bits));
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
            sum_block(steps, packed_a + i * steps * kDepth, packed_b, block, k0 > 0);
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

bool processor_has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBfloat16 = 1u << 22, kTiles = 1u << 24;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBfloat16) != 0 && (d & kTiles) != 0;
}

/// The system keeps the tiles of a process only if it has asked (Linux 5.16 and later).
bool system_keeps_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

KernelFunction bf16_tile_gemm() {
  return processor_has_tiles() && system_keeps_tiles() ? run_tile_gemm : nullptr;
}

}  // namespace lockstep::cpu
#else
lockstep::cpu::KernelFunction lockstep::cpu::bf16_tile_gemm() { return nullptr; }
#endif
