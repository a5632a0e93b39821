// Attention with grouped queries, causal or not, tile by tile (Dao, FlashAttention-2, 2023): scores
// exist only as one tile of scratch memory. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_gemm.hpp"
#include "backends/cpu/kernels/simd_math.hpp"
#include "core/base/dropout.hpp"

namespace lockstep::cpu {
namespace {

/// Queries and keys per tile. The number of keys fixes the order of sums, so it is the same for all
/// types.
template <class T>
inline constexpr int64_t kTileQueries = Tile<T>::kRows * 8;
inline constexpr int64_t kTileKeys = 64;

/// Shapes and strides shared by both directions. Queries come in pieces that are contiguous in the
/// sequence, and so do keys: one piece of both, or, with keys gathered from `parts` ranks, two
/// pieces of queries and two of keys per rank.
template <class T>
struct Attention {
  int64_t batch, seq, heads, kv_heads, head_dim;
  int64_t row;     // elements from one position to the next in qkv
  int64_t kv_row;  // elements from one position to the next where keys and values lie
  int64_t group;   // query heads per key head
  int64_t query_pieces, key_pieces, piece;
  const std::int32_t* starts;  // where the pieces of queries, then of keys, start; null: all at 0
  const std::int32_t* documents;  // where those of the own tokens begin; null: sequences are whole
  int64_t later;  // by how much queries count as later than they are; they see all earlier keys
  T scale;
  Attention(const KernelArgs& args, const std::int32_t* piece_starts,
            const std::int32_t* document_starts)
      : batch(args.dims[0]),
        seq(args.dims[1]),
        heads(args.dims[2]),
        kv_heads(args.dims[3]),
        head_dim(args.dims[4]),
        row((heads + 2 * kv_heads) * head_dim),
        kv_row(piece_starts ? 2 * kv_heads * head_dim : row),
        group(heads / kv_heads),
        query_pieces(piece_starts ? 2 : 1),
        key_pieces(piece_starts ? 2 * args.dims[5] : 1),
        piece(seq / query_pieces),
        starts(piece_starts),
        documents(document_starts),
        later(args.dims[7] << 40),
        scale(static_cast<T>(1 / __builtin_sqrt(static_cast<double>(head_dim)))) {}
  int64_t query(int64_t b, int64_t h, int64_t s) const {
    return (b * seq + s) * row + h * head_dim;
  }
  /// The element at which position s of a piece of keys begins; its values lie values() further.
  int64_t key(int64_t b, int64_t kv, int64_t key_piece, int64_t s) const {
    if (!starts) return query(b, heads + kv, s);
    return ((key_piece / 2 * batch + b) * seq + key_piece % 2 * piece + s) * kv_row + kv * head_dim;
  }
  int64_t values() const { return kv_heads * head_dim; }
  int64_t query_start(int64_t query_piece) const {
    return later + (starts ? starts[query_piece] : 0);
  }
  int64_t key_start(int64_t key_piece) const { return starts ? starts[2 + key_piece] : 0; }
  /// How many of the keys from `first_key` of the sequence on come before the document of query s.
  /// It does not fall from one query of a piece to the next.
  int64_t hidden(int64_t b, int64_t s, int64_t first_key) const {
    if (!documents) return 0;
    const int64_t before = documents[b * seq + s] - first_key;
    return before > 0 ? before : 0;
  }
  int64_t out(int64_t b, int64_t h, int64_t s) const {
    return ((b * seq + s) * heads + h) * head_dim;
  }
  int64_t lse(int64_t b, int64_t h, int64_t s) const { return (b * heads + h) * seq + s; }
};

/// The dropout of a call's probabilities. Whether there is any is known at compile time, so that
/// attention without dropout does not ask.
template <class T, bool kDrops>
struct AttentionDropout {
  const std::int32_t* heads;  // numbers of the heads
  const std::int32_t* keys;   // of the queries
  int layer;
  uint32_t below;
  T kept;
  AttentionDropout(const KernelArgs& args, const std::int32_t* operand)
      : heads(operand),
        keys(kDrops ? heads + args.dims[2] : nullptr),
        layer(args.layer),
        below(dropped_below(args.scalars[0])),
        kept(static_cast<T>(1 / (1 - args.scalars[0]))) {}
  /// What the probabilities are multiplied by of query `row`, counted over all sequences, in head
  /// h: fills `to` for `count` keys from `first` of the sequence on. Null if nothing is dropped.
  const T* factors(int64_t h, int64_t row, int64_t first, int64_t count, T* to) const {
    if (!kDrops || keys[row] < 0) return nullptr;
    const DropoutRow bits = DropoutRow::of_query(keys[row], layer, heads[h]);
    for (int64_t j = 0; j < count; ++j) {
      to[j] = bits.bits(static_cast<uint32_t>(first + j)) < below ? T(0) : kept;
    }
    return to;
  }
};

/// Turns one row of raw scores into exp(scale * score - m) for its first `valid` keys, of which
/// there is one, and 0 for the others, and updates m and l, the running maximum and sum. Returns
/// exp(old m - new m).
template <class T>
inline T softmax_step(T* scores, int64_t valid, int64_t keys, T scale, T& m, T& l) {
  const T lowest = -__builtin_huge_val();
  Vec<T> top = splat(m);
  for_vectors<T>(0, valid, [&](int64_t i, auto n) {
    top = max<T>(top, keep<T>(load(scores + i, n) * scale, lowest, n));
  });
  const T next = max_lanes<T>(top);
  Vec<T> sums{};
  for_vectors<T>(0, valid, [&](int64_t i, auto n) {
    const Vec<T> e = exponential(load(scores + i, n) * scale - next);
    sums += keep<T>(e, T(0), n);
    store(scores + i, e, n);
  });
  for (int64_t i = valid; i < keys; ++i) scores[i] = T(0);
  const T correction = exponential(splat(m - next))[0];
  l = l * correction + sum_lanes<T>(sums);
  m = next;
  return correction;
}

template <class T, bool kDrops>
void attention_forward(const KernelArgs& args) {
  const Attention<T> shape(args, input<std::int32_t>(args, 2), input<std::int32_t>(args, 3));
  const AttentionDropout<T, kDrops> dropout(args, input<std::int32_t>(args, 4));
  const int64_t D = shape.head_dim;
  const int64_t tiles = (shape.piece + kTileQueries<T> - 1) / kTileQueries<T>;
  const int64_t units = shape.query_pieces * tiles;
  const T* const qkv = input<T>(args, 0);
  const T* const kv_base = shape.starts ? input<T>(args, 1) : qkv;
  parallel(*args.team, shape.batch * shape.heads * units, 1, [&](int64_t begin, int64_t end) {
    T* const scores = static_cast<T*>(
        scratch(Scratch::Tiles,
                static_cast<std::size_t>(kTileQueries<T> * (kTileKeys + D + 2)) * sizeof(T)));
    T* const sums = scores + kTileQueries<T> * kTileKeys;  // running output, not yet divided by l
    T* const m = sums + kTileQueries<T> * D;
    T* const l = m + kTileQueries<T>;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / units / shape.heads, h = unit / units % shape.heads;
      const int64_t kv = h / shape.group;
      const int64_t query_piece = unit % units / tiles;
      const int64_t in_piece = unit % tiles * kTileQueries<T>;
      const int64_t queries = least(kTileQueries<T>, shape.piece - in_piece);
      const int64_t s0 = query_piece * shape.piece + in_piece;       // among own tokens
      const int64_t q0 = shape.query_start(query_piece) + in_piece;  // in the sequence
      bool first = !args.accumulate;
      for (int64_t i = 0; i < queries; ++i) {
        m[i] = -__builtin_huge_val();
        l[i] = 0;
        if (first) continue;
        // The softmax goes on from what other keys gave, whose sum is exp(lse).
        const T* const o = output<T>(args, 0) + shape.out(b, h, s0 + i);
        for_vectors<T>(0, D,
                       [&](int64_t d, auto n) { store(sums + i * D + d, load(o + d, n), n); });
        m[i] = output<T>(args, 1)[shape.lse(b, h, s0 + i)];
        l[i] = 1;
      }
      for (int64_t key_piece = 0; key_piece < shape.key_pieces; ++key_piece) {
        const int64_t start = shape.key_start(key_piece);
        const int64_t visible = least(shape.piece, q0 + queries - start);
        const int64_t earlier = shape.hidden(b, s0, start) / kTileKeys * kTileKeys;
        for (int64_t k0 = earlier; k0 < visible; k0 += kTileKeys) {
          const int64_t keys = least(kTileKeys, visible - k0);
          const T* const key = kv_base + shape.key(b, kv, key_piece, k0);
          gemm<T>(false, true, queries, keys, D, qkv + shape.query(b, h, s0), shape.row, key,
                  shape.kv_row, scores, kTileKeys);
          for (int64_t i = 0; i < queries; ++i) {
            const int64_t valid = least(keys, q0 + i - start - k0 + 1);
            const int64_t hidden = least(keys, shape.hidden(b, s0 + i, start + k0));
            T* const row = scores + i * kTileKeys;
            for (int64_t j = 0; j < (valid > hidden ? hidden : keys); ++j) row[j] = T(0);
            if (valid <= hidden) continue;
            const T correction = softmax_step<T>(row + hidden, valid - hidden, keys - hidden,
                                                 shape.scale, m[i], l[i]);
            T drawn[kTileKeys];
            if (const T* const factors =
                    dropout.factors(h, b * shape.seq + s0 + i, start + k0, keys, drawn)) {
              for (int64_t j = hidden; j < valid; ++j) row[j] *= factors[j];
            }
            if (!first) {
              for_vectors<T>(0, D, [&](int64_t d, auto n) {
                store(sums + i * D + d, load(sums + i * D + d, n) * correction, n);
              });
            }
          }
          Epilogue<T> epilogue;
          epilogue.add_c = !first;
          gemm<T>(false, false, queries, D, keys, scores, kTileKeys, key + shape.values(),
                  shape.kv_row, sums, D, epilogue);
          first = false;
        }
      }
      for (int64_t i = 0; i < queries; ++i) {
        T* const o = output<T>(args, 0) + shape.out(b, h, s0 + i);
        const T inverse = T(1) / l[i];
        for_vectors<T>(
            0, D, [&](int64_t d, auto n) { store(o + d, load(sums + i * D + d, n) * inverse, n); });
        output<T>(args, 1)[shape.lse(b, h, s0 + i)] =
            m[i] + static_cast<T>(__builtin_log(static_cast<double>(l[i])));
      }
    }
  });
}

/// Handles one (batch, key head) at a time, so that the gradients of keys and values that a group
/// of query heads shares are always added in the same order.
template <class T, bool kDrops>
void attention_backward(const KernelArgs& args) {
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
    T* const probs = static_cast<T*>(
        scratch(Scratch::Tiles,
                static_cast<std::size_t>(2 * kTileQueries<T> * kTileKeys + seq) * sizeof(T)));
    T* const d_scores = probs + kTileQueries<T> * kTileKeys;
    T* const delta = d_scores + kTileQueries<T> * kTileKeys;  // by query: sum of do * o
    // Adds the gradients that the queries of one tile give to the keys of another, and the reverse.
    const auto tile = [&](int64_t b, int64_t h, int64_t s0, int64_t queries, int64_t first_valid,
                          int64_t first_key, const T* key, T* d_key, int64_t keys, bool add_to_keys,
                          bool add_to_queries) {
      const T* const query = qkv + shape.query(b, h, s0);
      const T* const d_out = d_o + shape.out(b, h, s0);
      gemm<T>(false, true, queries, keys, D, query, shape.row, key, shape.kv_row, probs, kTileKeys);
      gemm<T>(false, true, queries, keys, D, d_out, heads_row, key + shape.values(), shape.kv_row,
              d_scores, kTileKeys);
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t valid = least(keys, first_valid + i);
        const int64_t hidden = least(keys, shape.hidden(b, s0 + i, first_key));
        const T norm = lse[shape.lse(b, h, s0 + i)], row_delta = delta[s0 + i];
        T* const p = probs + i * kTileKeys;
        T* const ds = d_scores + i * kTileKeys;
        T drawn[kTileKeys];
        const T* const factors = dropout.factors(h, b * seq + s0 + i, first_key, keys, drawn);
        for (int64_t j = hidden; factors && j < valid; ++j) ds[j] *= factors[j];
        for (int64_t j = 0; j < hidden; ++j) p[j] = ds[j] = T(0);
        for_vectors<T>(hidden, valid, [&](int64_t j, auto n) {
          const Vec<T> e = exponential(load(p + j, n) * shape.scale - norm);
          store(p + j, e, n);
          store(ds + j, e * (load(ds + j, n) - row_delta) * shape.scale, n);
        });
        for (int64_t j = hidden; factors && j < valid; ++j) p[j] *= factors[j];
        for (int64_t j = valid > hidden ? valid : hidden; j < keys; ++j) p[j] = ds[j] = T(0);
      }
      Epilogue<T> to_keys;
      to_keys.add_c = add_to_keys;
      gemm<T>(true, false, keys, D, queries, probs, kTileKeys, d_out, heads_row,
              d_key + shape.values(), shape.kv_row, to_keys);
      gemm<T>(true, false, keys, D, queries, d_scores, kTileKeys, query, shape.row, d_key,
              shape.kv_row, to_keys);
      Epilogue<T> to_queries;
      to_queries.add_c = add_to_queries;
      gemm<T>(false, false, queries, D, keys, d_scores, kTileKeys, key, shape.kv_row,
              dqkv + shape.query(b, h, s0), shape.row, to_queries);
    };
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / shape.kv_heads, kv = unit % shape.kv_heads;
      for (int64_t g = 0; g < shape.group; ++g) {
        const int64_t h = kv * shape.group + g;
        for (int64_t s = 0; s < seq; ++s) {
          const int64_t at = shape.out(b, h, s);
          Vec<T> sum{};
          for_vectors<T>(
              0, D, [&](int64_t d, auto n) { sum += load(d_o + at + d, n) * load(o + at + d, n); });
          delta[s] = sum_lanes<T>(sum);
        }
        for (int64_t key_piece = 0; key_piece < shape.key_pieces; ++key_piece) {
          for (int64_t k0 = 0; k0 < shape.piece; k0 += kTileKeys) {
            const int64_t keys = least(kTileKeys, shape.piece - k0);
            const int64_t at = shape.key(b, kv, key_piece, k0);
            bool add_to_keys = g > 0;  // the first tile overwrites a gradient, later ones add to it
            for (int64_t query_piece = 0; query_piece < shape.query_pieces; ++query_piece) {
              const int64_t first_key = shape.key_start(key_piece) + k0;
              const int64_t ahead =  // how far the keys are ahead of this piece's first query
                  first_key - shape.query_start(query_piece);
              for (int64_t q0 = ahead > 0 ? ahead / kTileQueries<T> * kTileQueries<T> : 0;
                   q0 < shape.piece; q0 += kTileQueries<T>) {
                const int64_t s0 = query_piece * shape.piece + q0;
                // The first tile of keys begins the gradients of all queries, those of later
                // documents too, unless they have met others before.
                const bool begun = args.accumulate || key_piece > 0 || k0 > 0;
                if (begun && shape.hidden(b, s0, first_key) >= keys) break;
                tile(b, h, s0, least(kTileQueries<T>, shape.piece - q0), q0 - ahead + 1, first_key,
                     kv_base + at, d_kv_base + at, keys, add_to_keys, begun);
                add_to_keys = true;
              }
            }
            if (add_to_keys) continue;  // otherwise these keys are later than all own queries
            for (int64_t j = 0; j < keys; ++j) {
              T* const d_key = d_kv_base + at + j * shape.kv_row;
              for_vectors<T>(0, D, [&](int64_t d, auto n) {
                store(d_key + d, Vec<T>{}, n);
                store(d_key + shape.values() + d, Vec<T>{}, n);
              });
            }
          }
        }
      }
    }
  });
}

template <class T>
void run_attention_forward(const KernelArgs& args) {
  args.in[4] != nullptr ? attention_forward<T, true>(args) : attention_forward<T, false>(args);
}
template <class T>
void run_attention_backward(const KernelArgs& args) {
  args.in[7] != nullptr ? attention_backward<T, true>(args) : attention_backward<T, false>(args);
}

}  // namespace
}  // namespace lockstep::cpu
