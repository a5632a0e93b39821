// Attention's backward pass. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_attention.hpp"

namespace lockstep::cpu {
namespace {

/// Scratch memory of the backward pass, cut into its parts.
template <class T>
struct BackwardScratch {
  using A = AttentionTile<T>;
  static constexpr int64_t kTiles = 4;   // of keys, for which queries are packed once
  static constexpr int64_t kPanels = 2;  // of queries, over which a product for the keys sums
  static constexpr int64_t kKeys = kTiles * A::kKeys, kQueries = kPanels * A::kLanes;
  static constexpr int64_t kScores = A::kKeys * A::kLanes;

  int64_t columns;                 // of the gradients of keys and values: whole panels
  int64_t rows;                    // of those of queries, which lie transposed
  T *key, *value, *key_by_column;  // packed tiles of keys
  T *d_key, *d_value;              // [kKeys, columns]
  T *query, *d_out;                // packed by query, [D, kLanes] each panel
  T *query_by_column, *d_out_by_column;
  T* d_query;                         // [rows, kLanes] each panel
  T *probs, *d_scores;                // [keys, kLanes] each panel
  T *probs_by_key, *d_scores_by_key;  // packed: [queries, kRows] each panel
  T *drawn, *delta;

  BackwardScratch(int64_t D, int64_t factors, int64_t deltas)
      : columns((D + Tile<T>::kCols - 1) / Tile<T>::kCols * Tile<T>::kCols),
        rows(padded_rows<T>(D)) {
    constexpr int64_t kSlack = kWidth<T>;  // packing writes up to a vector beyond a panel
    const struct {
      T** part;
      int64_t size;
    } parts[] = {{&key, kKeys * D + kSlack},
                 {&value, kKeys * D + kSlack},
                 {&key_by_column, kTiles * rows * A::kKeys + kSlack},
                 {&d_key, kKeys * columns},
                 {&d_value, kKeys * columns},
                 {&query, kQueries * D + kSlack},
                 {&d_out, kQueries * D + kSlack},
                 {&query_by_column, kQueries * columns + kSlack},
                 {&d_out_by_column, kQueries * columns + kSlack},
                 {&d_query, kPanels * rows * A::kLanes},
                 {&probs, kPanels * kScores},
                 {&d_scores, kPanels * kScores},
                 {&probs_by_key, kPanels * kScores + kSlack},
                 {&d_scores_by_key, kPanels * kScores + kSlack},
                 {&drawn, factors},
                 {&delta, deltas}};
    int64_t size = 0;
    for (const auto& part : parts) size += part.size;
    T* at = static_cast<T*>(scratch(Scratch::Tiles, static_cast<std::size_t>(size) * sizeof(T)));
    for (const auto& part : parts) {
      *part.part = at;
      at += part.size;
    }
  }
};

/// Packs panels of scores [keys, kLanes], `count` of them side by side, so that a product for the
/// keys sums over all their queries.
template <class T>
inline void pack_by_key(const T* scores, int64_t keys, int64_t count, T* out) {
  using S = BackwardScratch<T>;
  constexpr int64_t kRows = Tile<T>::kRows, kLanes = AttentionTile<T>::kLanes;
  for (int64_t k = 0; k < keys; k += kRows) {
    for (int64_t p = 0; p < count; ++p, out += kRows * kLanes) {
      pack<T, kRows>({scores + p * S::kScores + k * kLanes, kLanes, 1}, least(kRows, keys - k),
                     kLanes, out);
    }
  }
}

/// Turns raw scores [keys, kLanes] into probabilities p = exp(scale * score - lse), and gradients
/// of probabilities into those of raw scores: scale * p * (d - delta).
template <class T, bool kMasked>
inline void softmax_backward(T* probs, T* d_scores, int64_t keys, T scale, const T* lse,
                             const T* delta, const Visible<T>& visible) {
  constexpr int W = kWidth<T>, kVectors = Tile<T>::kVectors;
  for (int64_t j = 0; j < keys; ++j) {
    LOCKSTEP_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = j * AttentionTile<T>::kLanes + v * W;
      Vec<T> e = exponential(load(probs + at) * scale - load(lse + v * W));
      if (kMasked) e = visible.choose(j, v, e, Vec<T>{});
      store(probs + at, e);
      store(d_scores + at, e * (load(d_scores + at) - load(delta + v * W)) * scale);
    }
  }
}

/// Handles one (batch, key head) at a time, so that the gradients of keys and values that a group
/// of query heads shares are always added in the same order.
template <class T, bool kDrops>
void attention_backward(const KernelArgs& args) {
  using A = AttentionTile<T>;
  using S = BackwardScratch<T>;
  constexpr int64_t kLanes = A::kLanes, kRows = Tile<T>::kRows;
  const Attention<T> shape(args, input<std::int32_t>(args, 5), input<std::int32_t>(args, 6));
  const AttentionDropout<T, kDrops> dropout(args, input<std::int32_t>(args, 7));
  const int64_t D = shape.head_dim, seq = shape.seq, heads_row = shape.heads * D;
  const T* const qkv = input<T>(args, 0);
  const T* const o = input<T>(args, 1);
  const T* const lse = input<T>(args, 2);
  const T* const d_o = input<T>(args, 3);
  T* const dqkv = output<T>(args, 0);
  const T* const kv_base = shape.starts ? input<T>(args, 4) : qkv;
  T* const d_kv_base = shape.starts ? output<T>(args, 1) : dqkv;
  parallel(*args.team, shape.batch * shape.kv_heads, 1, [&](int64_t begin, int64_t end) {
    S at(D, dropout.size(), shape.group * seq);  // at.delta, by query: the sum of do * o
    T ones[kLanes];
    for (T& one : ones) one = T(1);

    // Adds what the queries of a block give to the gradients of a block of keys, and the reverse.
    // `more` queries come after them.
    const auto block = [&](int64_t b, int64_t h, int64_t s0, int64_t queries, int64_t query,
                           int64_t more, int64_t first_key, int64_t keys, const T* delta,
                           bool add_to_queries) {
      const T* const q = qkv + shape.query(b, h, s0);
      const T* const d_out = d_o + shape.out(b, h, s0);
      const int64_t panels = (queries + kLanes - 1) / kLanes;
      pack<T, kLanes>({q, shape.row, 1}, queries, D, at.query);
      pack<T, kLanes>({d_out, heads_row, 1}, queries, D, at.d_out);
      // Queries beyond the last are zeros, because a product sums over whole panels.
      const int64_t depth = panels * kLanes;
      const auto by_column = [&](const T* from, int64_t stride, T* to) {
        for (int64_t c = 0; c < D; c += kLanes, to += depth * kLanes) {
          pack<T, kLanes>({from + c, 1, stride}, least(kLanes, D - c), queries, to);
          for (int64_t i = queries * kLanes; i < depth * kLanes; ++i) to[i] = T(0);
        }
      };
      by_column(q, shape.row, at.query_by_column);
      by_column(d_out, heads_row, at.d_out_by_column);
      Prefetch d_queries(Lines<T>{dqkv + shape.query(b, h, s0), shape.row, 1}, queries, D);
      Prefetch next_queries(Lines<T>{q + queries * shape.row, shape.row, 1}, more, D);
      Prefetch next_d_out(Lines<T>{d_out + queries * heads_row, heads_row, 1}, more, D);
      bool begun = false;  // there are gradients of queries
      for (int64_t k0 = 0; k0 < keys; k0 += A::kKeys) {
        const int64_t count = least(A::kKeys, keys - k0);
        const int64_t rows = least(count, query + queries - first_key - k0);  // that a query sees
        if (rows <= 0) break;
        for (int64_t p = 0; p < panels; ++p) {
          const int64_t first = p * kLanes, lanes = least(kLanes, queries - first);
          const Visible<T> sees(shape, b, s0 + first, lanes, query + first, first_key + k0, count);
          T* const probs = at.probs + p * S::kScores;
          T* const d_scores = at.d_scores + p * S::kScores;
          multiply_panels<T>(sees.rows, D, at.key + k0 * D, kRows * D, at.query + first * D, probs,
                             kLanes, false, next_queries);
          multiply_panels<T>(sees.rows, D, at.value + k0 * D, kRows * D, at.d_out + first * D,
                             d_scores, kLanes, false, next_d_out);
          const T* const factors =
              dropout.factors(h, b * seq + s0 + first, lanes, first_key + k0, sees.rows, at.drawn);
          for (int64_t i = 0; factors && i < sees.rows * kLanes; ++i) d_scores[i] *= factors[i];
          T norm[kLanes], row_delta[kLanes];
          for (int64_t i = 0; i < kLanes; ++i) {
            // A lane without a query has probabilities of zero.
            norm[i] = i < lanes ? lse[shape.lse(b, h, s0 + first + i)] : T(1e30);
            row_delta[i] = i < lanes ? delta[s0 + first + i] : T(0);
          }
          const auto softmax = sees.all ? softmax_backward<T, false> : softmax_backward<T, true>;
          softmax(probs, d_scores, sees.rows, shape.scale, norm, row_delta, sees);
          for (int64_t i = 0; factors && i < sees.rows * kLanes; ++i) probs[i] *= factors[i];
          for (int64_t i = sees.rows * kLanes; i < rows * kLanes; ++i) {
            probs[i] = d_scores[i] = T(0);
          }
          multiply_panels<T>(D, rows, at.key_by_column + k0 * at.rows, kRows * count, d_scores,
                             at.d_query + p * at.rows * kLanes, kLanes, begun, d_queries);
        }
        begun = true;
        pack_by_key(at.probs, rows, panels, at.probs_by_key);
        pack_by_key(at.d_scores, rows, panels, at.d_scores_by_key);
        for (int64_t c = 0; c < D; c += kLanes) {
          multiply_panels<T>(rows, depth, at.probs_by_key, kRows * depth,
                             at.d_out_by_column + c * depth, at.d_value + k0 * at.columns + c,
                             at.columns, true, next_d_out);
          multiply_panels<T>(rows, depth, at.d_scores_by_key, kRows * depth,
                             at.query_by_column + c * depth, at.d_key + k0 * at.columns + c,
                             at.columns, true, next_queries);
        }
      }
      for (int64_t i = 0; !begun && i < panels * at.rows * kLanes; ++i) at.d_query[i] = T(0);
      for (int64_t p = 0; p < panels; ++p) {
        store_transposed(at.d_query + p * at.rows * kLanes, D, least(kLanes, queries - p * kLanes),
                         ones, dqkv + shape.query(b, h, s0 + p * kLanes), shape.row,
                         add_to_queries);
      }
    };

    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / shape.kv_heads, kv = unit % shape.kv_heads;
      for (int64_t g = 0; g < shape.group; ++g) {
        for (int64_t s = 0; s < seq; ++s) {
          const int64_t row = shape.out(b, kv * shape.group + g, s);
          Vec<T> sum{};
          for_vectors<T>(0, D, [&](int64_t d, auto n) {
            sum += load(d_o + row + d, n) * load(o + row + d, n);
          });
          at.delta[g * seq + s] = sum_lanes<T>(sum);
        }
      }
      for (int64_t key_piece = 0; key_piece < shape.key_pieces; ++key_piece) {
        for (int64_t k0 = 0; k0 < shape.piece; k0 += S::kKeys) {
          const int64_t keys = least(S::kKeys, shape.piece - k0);
          const int64_t first_key = shape.key_start(key_piece) + k0;
          const int64_t key_at = shape.key(b, kv, key_piece, k0);
          const T* const key = kv_base + key_at;
          for (int64_t t = 0; t < keys; t += A::kKeys) {
            const int64_t count = least(A::kKeys, keys - t);
            const T* const from = key + t * shape.kv_row;
            pack<T, kRows>({from, shape.kv_row, 1}, count, D, at.key + t * D);
            pack<T, kRows>({from + shape.values(), shape.kv_row, 1}, count, D, at.value + t * D);
            pack<T, kRows>({from, 1, shape.kv_row}, D, count, at.key_by_column + t * at.rows);
          }
          for (int64_t i = 0; i < S::kKeys * at.columns; ++i) at.d_key[i] = at.d_value[i] = T(0);
          // The first block of keys begins the gradients of all queries, those of later documents
          // too, unless they have met others before.
          const bool begun = args.accumulate || key_piece > 0 || k0 > 0;
          for (int64_t g = 0; g < shape.group; ++g) {
            for (int64_t query_piece = 0; query_piece < shape.query_pieces; ++query_piece) {
              const int64_t start = shape.query_start(query_piece);
              const int64_t ahead = first_key - start;  // of the keys, of the piece's first query
              for (int64_t q0 = ahead > 0 ? ahead / S::kQueries * S::kQueries : 0; q0 < shape.piece;
                   q0 += S::kQueries) {
                const int64_t s0 = query_piece * shape.piece + q0;
                const int64_t queries = least(S::kQueries, shape.piece - q0);
                if (begun && shape.hidden(b, s0, first_key) >= keys) break;
                const int64_t last = queries - 1;
                if (begun && shape.seen(b, s0 + last, start + q0 + last, first_key) < 1) continue;
                const int64_t more = least(S::kQueries, shape.piece - q0 - queries);
                block(b, kv * shape.group + g, s0, queries, start + q0, more, first_key, keys,
                      at.delta + g * seq, begun);
              }
            }
          }
          for (int64_t j = 0; j < keys; ++j) {
            T* const d_key = d_kv_base + key_at + j * shape.kv_row;
            for_vectors<T>(0, D, [&](int64_t d, auto n) {
              store(d_key + d, load(at.d_key + j * at.columns + d, n), n);
              store(d_key + shape.values() + d, load(at.d_value + j * at.columns + d, n), n);
            });
          }
        }
      }
    }
  });
}

template <class T>
void run_attention_backward(const KernelArgs& args) {
  args.in[7] != nullptr ? attention_backward<T, true>(args) : attention_backward<T, false>(args);
}

}  // namespace
}  // namespace lockstep::cpu
