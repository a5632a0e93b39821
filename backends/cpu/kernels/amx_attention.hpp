// Attention of bfloat16 on tiles, tile by tile as in float32: these are the products of
// simd_attention_forward.hpp and simd_attention_backward.hpp. Scores, sums, the softmax and its
// gradient are float32; probabilities, and gradients of scores, are rounded to bfloat16 where they
// are an operand of a product, as FlashAttention-2 does on GPUs (Dao 2023), and results once, when
// they are stored. Included by isa_amx.cpp only.
#pragma once

#include "backends/cpu/kernels/amx_tiles.hpp"
#include "backends/cpu/kernels/simd_attention_backward.hpp"
#include "backends/cpu/kernels/simd_attention_forward.hpp"

namespace lockstep::cpu {
namespace {

static_assert(AttentionTile<float>::kLanes == kBlock);  // a panel is a block of columns

/// 32 rounded values: of `low`, then of `high`.
inline void store_rounded(Bits* to, Vec<float> low, Vec<float> high) {
  const auto rounded = _mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
  __builtin_memcpy(to, &rounded, sizeof rounded);
}

/// Rounds `last` rows of a panel, which are `stride` elements apart, zeros from row `end` on, as
/// the right operand of products that sum over rows: by pairs of rows, in tiles of 16 lanes. `last`
/// is even.
inline void round_pairs(const float* rows, int64_t stride, int64_t end, int64_t last, Bits* to) {
  // Words 0, 16, 1, 17, …: a row's and the next one's.
  alignas(64) Bits order[kDepth];
  for (int i = 0; i < kDepth; ++i) order[i] = static_cast<Bits>(i / 2 + i % 2 * kSide);
  const __m512i index = _mm512_load_si512(order);
  for (int64_t r = 0; r < last; r += 2) {
    Bits* const step = to + r / kDepth * 2 * kTile + r % kDepth / 2 * kDepth;
    for (int64_t v = 0; v < kBlock; v += kSide) {
      const float* const at = rows + r * stride + v;
      const Vec<float> even = r < end ? load(at) : Vec<float>{};
      const Vec<float> odd = r + 1 < end ? load(at + stride) : Vec<float>{};
      const auto rounded = _mm512_cvtne2ps_pbh((__m512)odd, (__m512)even);
      const __m512i pairs = _mm512_permutexvar_epi16(index, (__m512i)rounded);
      __builtin_memcpy(step + v * kDepth, &pairs, sizeof pairs);
    }
  }
}

/// VectorProducts on tiles.
class TileProducts {
 public:
  using Value = float;
  using Element = Bits;
  static constexpr int64_t kKeys = 128, kLanes = kBlock, kMostTiles = 16;

  explicit TileProducts(const Attention<float>& shape)
      : shape_(shape), D_(shape.head_dim), rows_(padded(D_, kBlock)) {
    constexpr int64_t kBytes = int64_t{5} << 17;  // of a block, in L2
    const int64_t tile = kKeys * 2 * rows_ * static_cast<int64_t>(sizeof(Bits));
    tiles_ = kBytes < tile ? 1 : least(kBytes / tile, kMostTiles);
  }
  int64_t rows() const { return rows_; }
  int64_t tiles() const { return tiles_; }
  /// In elements of float32, with room to begin at a cache line.
  int64_t size() const {
    return (2 * tiles_ * kKeys * rows_ + kLanes * rows_ + kKeys * kLanes) / 2 + 16;
  }
  void place(float* at) {
    query_ = reinterpret_cast<Bits*>(aligned(at));
    probs_ = query_ + kLanes * rows_;
    keys_ = probs_ + kKeys * kLanes;
    values_ = keys_ + tiles_ * kKeys * rows_;
  }
  void pack_query(const Bits* query, int64_t lanes) {
    pack_tiles({query, shape_.row, 1}, lanes, D_, true, query_);
  }
  void pack_keys(int64_t t, const Bits* key, int64_t count) {
    pack_tiles({key, shape_.kv_row, 1}, count, D_, false, keys_ + t * kKeys * rows_);
    pack_tiles({key + shape_.values(), 1, shape_.kv_row}, D_, count, false,
               values_ + t * kKeys * rows_);
  }
  void score(int64_t t, int64_t rows, float* scores, Prefetch& next) const {
    for (int64_t k = 0; k < rows; k += kBlock) {
      for (int64_t i = 0; i < rows_ / 2; i += kSide) next.step();
      sum_block(rows_ / kDepth, keys_ + (t * kKeys + k) * rows_, query_, scores + k * kLanes,
                kLanes, false);
    }
  }
  void add_values(int64_t t, int64_t count, int64_t rows, const float* probs, float* sums, bool add,
                  Prefetch& next) {
    const int64_t steps = padded(rows, kDepth) / kDepth, depth = padded(count, kDepth);
    round_pairs(probs, kLanes, rows, steps * kDepth, probs_);
    for (int64_t d = 0; d < rows_; d += kBlock) {
      for (int64_t i = 0; i < steps; ++i) next.step();
      sum_block(steps, values_ + t * kKeys * rows_ + d * depth, probs_, sums + d * kLanes, kLanes,
                add);
    }
  }

  static float* aligned(float* at) {
    return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(at) + 63) / 64 * 64);
  }

 private:
  const Attention<float>& shape_;
  const TileRegisters registers_;
  int64_t D_, rows_, tiles_ = 1;
  Bits *query_ = nullptr, *probs_ = nullptr, *keys_ = nullptr, *values_ = nullptr;
};

/// VectorGradients on tiles.
class TileGradients : public BackwardTile<float, 64> {
  using S = BackwardTile<float, 64>;

 public:
  using Value = float;
  using Element = Bits;

  explicit TileGradients(const Attention<float>& shape)
      : shape_(shape), D_(shape.head_dim), rows_(padded(D_, kBlock)) {}
  int64_t rows() const { return rows_; }
  /// In elements of float32, with room to begin at a cache line.
  int64_t size() const {
    return (3 * kKeys * rows_ + 4 * kQueries * rows_ + 3 * kScores) / 2 + 2 * kKeys * rows_ + 16;
  }
  void place(float* begin) {
    Parts<Bits> parts(reinterpret_cast<Bits*>(TileProducts::aligned(begin)));
    key_ = parts.next(kKeys * rows_);
    value_ = parts.next(kKeys * rows_);
    key_by_column_ = parts.next(kKeys * rows_);
    query_ = parts.next(kQueries * rows_);
    d_out_ = parts.next(kQueries * rows_);
    query_by_column_ = parts.next(kQueries * rows_);
    d_out_by_column_ = parts.next(kQueries * rows_);
    probs_ = parts.next(kScores);
    d_scores_ = parts.next(kScores);
    d_score_pairs_ = parts.next(kScores);
    Parts<float> sums(reinterpret_cast<float*>(parts.next(0)));
    d_key_ = sums.next(kKeys * rows_);
    d_value_ = sums.next(kKeys * rows_);
  }
  void begin_keys(const Bits* key, int64_t keys) {
    for (int64_t k0 = 0; k0 < keys; k0 += kTile) {
      const int64_t count = least(kTile, keys - k0);
      const Bits* const from = key + k0 * shape_.kv_row;
      pack_tiles({from, shape_.kv_row, 1}, count, D_, false, key_ + k0 * rows_);
      pack_tiles({from + shape_.values(), shape_.kv_row, 1}, count, D_, false, value_ + k0 * rows_);
      pack_tiles({from, 1, shape_.kv_row}, D_, count, false, key_by_column_ + k0 * rows_);
    }
    for (int64_t i = 0; i < kKeys * rows_; ++i) d_key_[i] = d_value_[i] = 0;
  }
  void begin_queries(const Bits* query, const Bits* d_out, int64_t out_row, int64_t queries) {
    panels_ = (queries + kLanes - 1) / kLanes;
    pack_tiles({query, shape_.row, 1}, queries, D_, true, query_);
    pack_tiles({d_out, out_row, 1}, queries, D_, true, d_out_);
    pack_tiles({query, 1, shape_.row}, D_, queries, true, query_by_column_);
    pack_tiles({d_out, 1, out_row}, D_, queries, true, d_out_by_column_);
  }
  void score(int64_t k0, int64_t p, int64_t rows, float* scores, Prefetch& next) const {
    multiply(key_ + k0 * rows_, query_ + p * kLanes * rows_, rows, scores, next);
  }
  void d_probs(int64_t k0, int64_t p, int64_t rows, float* d_probs, Prefetch& next) const {
    multiply(value_ + k0 * rows_, d_out_ + p * kLanes * rows_, rows, d_probs, next);
  }
  /// Rounds them: a tile of 16 keys by the queries of a panel, and pairs of keys.
  void take(int64_t p, int64_t rows, int64_t all, const float* probs, const float* d_scores) {
    const int64_t last = padded(all, kBlock);
    for (int64_t j = 0; j < last; ++j) {
      const int64_t to =
          (((j / kBlock * panels_ + p) * 2 + j % kBlock / kSide) * kSide + j % kSide) * kDepth;
      const auto row = [&](const float* from, int64_t v) {
        return j < rows ? load(from + j * kQueries + v) : Vec<float>{};
      };
      store_rounded(probs_ + to, row(probs, 0), row(probs, kSide));
      store_rounded(d_scores_ + to, row(d_scores, 0), row(d_scores, kSide));
    }
    round_pairs(d_scores, kQueries, rows, padded(rows, kDepth),
                d_score_pairs_ + p * S::kTile * kLanes);
  }
  void add_to_query(int64_t k0, int64_t p, int64_t count, int64_t rows, const float*,
                    float* d_query, bool add, Prefetch& next) const {
    const int64_t steps = padded(rows, kDepth) / kDepth, depth = padded(count, kDepth);
    for (int64_t d = 0; d < rows_; d += kBlock) {
      for (int64_t i = 0; i < steps; ++i) next.step();
      sum_block(steps, key_by_column_ + k0 * rows_ + d * depth,
                d_score_pairs_ + p * S::kTile * kLanes, d_query + d * kLanes, kLanes, add);
    }
  }
  void add_to_keys(int64_t k0, int64_t rows, const float*, const float*, Prefetch& next) {
    const int64_t depth = panels_ * kLanes;
    for (int64_t k = 0; k < rows; k += kBlock) {
      for (int64_t d = 0; d < rows_; d += kBlock) {
        next.step();
        const int64_t sums = (k0 + k) * rows_ + d;
        sum_block(panels_, probs_ + k * depth, d_out_by_column_ + d * depth, d_value_ + sums, rows_,
                  true);
        sum_block(panels_, d_scores_ + k * depth, query_by_column_ + d * depth, d_key_ + sums,
                  rows_, true);
      }
    }
  }
  void store_key(int64_t j, Bits* d_key) const {
    for_vectors<float>(0, D_, [&](int64_t d, auto n) {
      store_values(d_key + d, load(d_key_ + j * rows_ + d, n), n);
      store_values(d_key + shape_.values() + d, load(d_value_ + j * rows_ + d, n), n);
    });
  }

 private:
  /// The products of the first `rows` lines of `a` with a panel, [rows, kQueries].
  void multiply(const Bits* a, const Bits* b, int64_t rows, float* to, Prefetch& next) const {
    for (int64_t k = 0; k < rows; k += kBlock) {
      for (int64_t i = 0; i < rows_ / 2; i += kSide) next.step();
      sum_block(rows_ / kDepth, a + k * rows_, b, to + k * kQueries, kQueries, false);
    }
  }

  const Attention<float>& shape_;
  const TileRegisters registers_;
  int64_t D_, rows_, panels_ = 0;
  Bits *key_ = nullptr, *value_ = nullptr, *key_by_column_ = nullptr;
  Bits *query_ = nullptr, *d_out_ = nullptr;
  Bits *query_by_column_ = nullptr, *d_out_by_column_ = nullptr;
  Bits *probs_ = nullptr, *d_scores_ = nullptr, *d_score_pairs_ = nullptr;
  float *d_key_ = nullptr, *d_value_ = nullptr;
};

inline void run_tile_attention_forward(const KernelArgs& args) {
  args.in[4] != nullptr ? attention_forward<TileProducts, true>(args)
                        : attention_forward<TileProducts, false>(args);
}
inline void run_tile_attention_backward(const KernelArgs& args) {
  args.in[7] != nullptr ? attention_backward<TileGradients, true>(args)
                        : attention_backward<TileGradients, false>(args);
}

}  // namespace
}  // namespace lockstep::cpu
