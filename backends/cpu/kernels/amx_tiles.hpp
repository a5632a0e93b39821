// Registers of tiles (Intel AMX, Intel 64 and IA-32 Architectures Software Developer's Manual,
// vol. 1, ch. 18): 16 rows of 64 bytes, and an instruction that adds the product of a tile [16, 32]
// of bfloat16 and a tile of 16 pairs [16, 16, 2] to one of float32 [16, 16]. Products are exact;
// subnormal operands and sums count as zero. Included by isa_amx.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_bfloat16.hpp"
#include "backends/cpu/kernels/simd_gemm.hpp"

namespace lockstep::cpu {
namespace {

constexpr int64_t kSide = 16;              // rows of a tile, and columns of a tile of sums
constexpr int64_t kDepth = 32;             // elements of a row of a tile
constexpr int64_t kTile = kSide * kDepth;  // elements
constexpr int64_t kBlock = 2 * kSide;      // rows and columns that are summed at a time

inline int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Packs up to 16 lines by 32 elements of depth into one tile, with zeros beyond them: line by
/// line, or pair of neighbours in depth by pair.
inline void pack_tile(Lines<Bits> source, int64_t lines, int64_t depth, bool by_pairs, Bits* out) {
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
inline void pack_tiles(Lines<Bits> source, int64_t lines, int64_t k, bool by_pairs, Bits* out) {
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

/// sums[32, 32] = [sums +] the product of two rows and two columns of tiles; rows of sums are
/// `stride` elements apart.
inline void sum_block(int64_t steps, const Bits* a, const Bits* b, float* sums, int64_t stride,
                      bool add) {
  const int64_t row = stride * static_cast<int64_t>(sizeof(float));
  float* const lower = sums + kSide * stride;
  if (add) {
    _tile_loadd(0, sums, row);
    _tile_loadd(1, sums + kSide, row);
    _tile_loadd(2, lower, row);
    _tile_loadd(3, lower + kSide, row);
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
  _tile_stored(0, sums, row);
  _tile_stored(1, sums + kSide, row);
  _tile_stored(2, lower, row);
  _tile_stored(3, lower + kSide, row);
}

}  // namespace
}  // namespace lockstep::cpu
