// Attention's forward pass. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_attention.hpp"

namespace lockstep::cpu {
namespace {

/// The running softmax of one panel of queries.
template <class T>
struct RunningSoftmax {
  static constexpr int64_t kLanes = AttentionTile<T>::kLanes;
  T m[kLanes], l[kLanes];  // by lane: the maximum, and the sum of exp(score - m)

  /// Turns a tile of raw scores [keys, kLanes] into exp(scale * score - m), and 0 where a lane does
  /// not see the key, and updates m and l. Fills `correction` with exp(old m - new m), and returns
  /// whether one of these is not 1.
  template <bool kMasked>
  bool add(T* scores, int64_t keys, T scale, const Visible<T>& visible, T* correction) {
    constexpr int W = kWidth<T>, kVectors = Tile<T>::kVectors;
    const Vec<T> lowest = splat<T>(-__builtin_huge_val());
    Vec<T> top[kVectors], sums[kVectors] = {};
    for (int v = 0; v < kVectors; ++v) top[v] = load(m + v * W);
    for (int64_t j = 0; j < keys; ++j) {
      LOCKSTEP_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        Vec<T> score = load(scores + j * kLanes + v * W) * scale;
        if (kMasked) score = visible.choose(j, v, score, lowest);
        top[v] = max<T>(top[v], score);
      }
    }
    Vec<T> base[kVectors];  // m, but for lanes that have seen no key yet
    for (int v = 0; v < kVectors; ++v) base[v] = top[v] == lowest ? Vec<T>{} : top[v];
    for (int64_t j = 0; j < keys; ++j) {
      LOCKSTEP_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        T* const at = scores + j * kLanes + v * W;
        Vec<T> e = exponential(load(at) * scale - base[v]);
        if (kMasked) e = visible.choose(j, v, e, Vec<T>{});
        sums[v] += e;
        store(at, e);
      }
    }
    Vec<T> change{};
    for (int v = 0; v < kVectors; ++v) {
      const Vec<T> factor = exponential(load(m + v * W) - base[v]);
      change = max<T>(change, T(1) - factor);
      store(correction + v * W, factor);
      store(l + v * W, load(l + v * W) * factor + sums[v]);
      store(m + v * W, top[v]);
    }
    return max_lanes<T>(change) > T(0);
  }
};

/// Multiplies each row of a panel [rows, kLanes] by the factors of its lanes.
template <class T>
inline void scale_lanes(T* panel, int64_t rows, const T* factors) {
  constexpr int W = kWidth<T>;
  for (int64_t i = 0; i < rows * AttentionTile<T>::kLanes; i += AttentionTile<T>::kLanes) {
    LOCKSTEP_UNROLL
    for (int v = 0; v < Tile<T>::kVectors; ++v) {
      store(panel + i + v * W, load(panel + i + v * W) * load(factors + v * W));
    }
  }
}

/// Handles one tile of queries of one head at a time.
template <class T, bool kDrops>
void attention_forward(const KernelArgs& args) {
  using A = AttentionTile<T>;
  constexpr int64_t kLanes = A::kLanes;
  const Attention<T> shape(args, input<std::int32_t>(args, 2), input<std::int32_t>(args, 3));
  const AttentionDropout<T, kDrops> dropout(args, input<std::int32_t>(args, 4));
  const int64_t D = shape.head_dim, rows = padded_rows<T>(D);
  const int64_t tiles = (shape.piece + A::kQueries - 1) / A::kQueries;
  const int64_t units = shape.query_pieces * tiles;
  const T* const qkv = input<T>(args, 0);
  const T* const kv_base = shape.starts ? input<T>(args, 1) : qkv;
  parallel(*args.team, shape.batch * shape.heads * units, 1, [&](int64_t begin, int64_t end) {
    // Packing writes up to a vector beyond a panel.
    const int64_t query_size = A::kQueries * D + kWidth<T>, sums_size = A::kPanels * rows * kLanes;
    const int64_t key_size = A::kKeys * D + kWidth<T>, value_size = rows * A::kKeys + kWidth<T>;
    const int64_t size =
        query_size + sums_size + key_size + value_size + A::kKeys * kLanes + dropout.size();
    T* const queries_packed =
        static_cast<T*>(scratch(Scratch::Tiles, static_cast<std::size_t>(size) * sizeof(T)));
    T* const sums = queries_packed + query_size;  // running outputs, not yet divided by l
    T* const keys_packed = sums + sums_size;
    T* const values_packed = keys_packed + key_size;
    T* const scores = values_packed + value_size;
    T* const drawn = scores + A::kKeys * kLanes;
    RunningSoftmax<T> softmax[A::kPanels];
    T correction[kLanes];
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / units / shape.heads, h = unit / units % shape.heads;
      const int64_t kv = h / shape.group;
      const int64_t query_piece = unit % units / tiles;
      const int64_t in_piece = unit % tiles * A::kQueries;
      const int64_t queries = least(A::kQueries, shape.piece - in_piece);
      const int64_t s0 = query_piece * shape.piece + in_piece;       // among own tokens
      const int64_t q0 = shape.query_start(query_piece) + in_piece;  // in the sequence
      const int64_t panels = (queries + kLanes - 1) / kLanes;
      bool begun[A::kPanels];  // the panel has a running output
      pack<T, kLanes>({qkv + shape.query(b, h, s0), shape.row, 1}, queries, D, queries_packed);
      if (args.accumulate) {
        const T* const o = output<T>(args, 0) + shape.out(b, h, s0);
        for (int64_t p = 0; p < panels; ++p) {
          pack<T, kLanes>({o + p * kLanes * shape.heads * D, shape.heads * D, 1},
                          least(kLanes, queries - p * kLanes), D, sums + p * rows * kLanes);
        }
      }
      for (int64_t i = 0; i < panels * kLanes; ++i) {
        // The softmax goes on from what other keys gave, whose sum is exp(lse).
        const bool on = args.accumulate && i < queries;
        RunningSoftmax<T>& running = softmax[i / kLanes];
        running.m[i % kLanes] =
            on ? output<T>(args, 1)[shape.lse(b, h, s0 + i)] : -__builtin_huge_val();
        running.l[i % kLanes] = on ? T(1) : T(0);
        begun[i / kLanes] = args.accumulate;
      }
      Prefetch outputs(Lines<T>{output<T>(args, 0) + shape.out(b, h, s0), shape.heads * D, 1},
                       queries, D);
      for (int64_t key_piece = 0; key_piece < shape.key_pieces; ++key_piece) {
        const int64_t start = shape.key_start(key_piece);
        const int64_t visible = least(shape.piece, q0 + queries - start);
        const int64_t earlier = shape.hidden(b, s0, start) / A::kKeys * A::kKeys;
        for (int64_t k0 = earlier; k0 < visible; k0 += A::kKeys) {
          const int64_t keys = least(A::kKeys, visible - k0);
          const T* const key = kv_base + shape.key(b, kv, key_piece, k0);
          pack<T, Tile<T>::kRows>({key, shape.kv_row, 1}, keys, D, keys_packed);
          pack<T, Tile<T>::kRows>({key + shape.values(), 1, shape.kv_row}, D, keys, values_packed);
          const int64_t more = least(A::kKeys, visible - k0 - A::kKeys);
          const T* const next = key + A::kKeys * shape.kv_row;
          Prefetch next_keys(Lines<T>{next, shape.kv_row, 1}, more, D);
          Prefetch next_values(Lines<T>{next + shape.values(), shape.kv_row, 1}, more, D);
          for (int64_t p = 0; p < panels; ++p) {
            const int64_t first = p * kLanes, lanes = least(kLanes, queries - first);
            const Visible<T> sees(shape, b, s0 + first, lanes, q0 + first, start + k0, keys);
            if (sees.rows == 0 || shape.hidden(b, s0 + first, start + k0) >= keys) continue;
            multiply_panels<T>(sees.rows, D, keys_packed, Tile<T>::kRows * D,
                               queries_packed + first * D, scores, kLanes, false,
                               p % 2 == 0 ? next_keys : next_values);
            const bool changed = sees.all ? softmax[p].template add<false>(
                                                scores, sees.rows, shape.scale, sees, correction)
                                          : softmax[p].template add<true>(
                                                scores, sees.rows, shape.scale, sees, correction);
            if (const T* const factors = dropout.factors(h, b * shape.seq + s0 + first, lanes,
                                                         start + k0, sees.rows, drawn)) {
              for (int64_t i = 0; i < sees.rows * kLanes; ++i) scores[i] *= factors[i];
            }
            T* const sum = sums + p * rows * kLanes;
            if (begun[p] && changed) scale_lanes(sum, D, correction);
            multiply_panels<T>(D, sees.rows, values_packed, Tile<T>::kRows * keys, scores, sum,
                               kLanes, begun[p], outputs);
            begun[p] = true;
          }
        }
      }
      for (int64_t p = 0; p < panels; ++p) {
        const int64_t first = p * kLanes, lanes = least(kLanes, queries - first);
        const RunningSoftmax<T>& running = softmax[p];
        T inverse[kLanes];
        for (int64_t i = 0; i < lanes; ++i) {
          inverse[i] = T(1) / running.l[i];
          output<T>(args, 1)[shape.lse(b, h, s0 + first + i)] =
              running.m[i] + static_cast<T>(__builtin_log(static_cast<double>(running.l[i])));
        }
        store_transposed(sums + p * rows * kLanes, D, lanes, inverse,
                         output<T>(args, 0) + shape.out(b, h, s0 + first), shape.heads * D, false);
      }
    }
  });
}

template <class T>
void run_attention_forward(const KernelArgs& args) {
  args.in[4] != nullptr ? attention_forward<T, true>(args) : attention_forward<T, false>(args);
}

}  // namespace
}  // namespace lockstep::cpu
