// Attention's backward pass. Included by isa_*.cpp only.
#pragma once

#include <type_traits>

#include "backends/cpu/kernels/simd_attention.hpp"

namespace lockstep::cpu {
namespace {

/// How the backward pass cuts its work: tiles of keys in a block, for which queries are packed
/// once; panels of queries, over which a product for the keys sums. Scores lie [kTile, kQueries].
template <class T, int64_t kKeysOfTile>
struct BackwardTile {
  static constexpr int64_t kTile = kKeysOfTile, kTiles = 8, kKeys = kTiles * kTile;
  static constexpr int64_t kLanes = AttentionTile<T>::kLanes;
  static constexpr int64_t kPanels = 2, kQueries = kPanels * kLanes;
  static constexpr int64_t kScores = kTile * kQueries;
};

/// Cuts scratch memory into parts.
template <class T>
class Parts {
 public:
  explicit Parts(T* begin) : at_(begin) {}
  T* next(int64_t size) {
    T* const part = at_;
    at_ += size;
    return part;
  }

 private:
  T* at_;
};

/// The products of attention's backward pass, in vectors of T. Gradients of queries are those of a
/// panel, [rows, kLanes]; those of keys and values are of all tiles of a block.
template <class T>
class VectorGradients : public BackwardTile<T, AttentionTile<T>::kKeys / 2> {
  using S = BackwardTile<T, AttentionTile<T>::kKeys / 2>;

 public:
  using Value = T;    // of scores and sums
  using Element = T;  // of queries, keys and values in memory

  explicit VectorGradients(const Attention<T>& shape)
      : shape_(shape),
        D_(shape.head_dim),
        rows_(padded_rows<T>(D_)),
        columns_((D_ + kLanes - 1) / kLanes * kLanes) {}
  int64_t rows() const { return rows_; }
  /// Elements of scratch memory. Packing writes up to a vector beyond a panel.
  int64_t size() const {
    return S::kKeys * (2 * D_ + rows_ + 2 * columns_) + S::kQueries * 2 * (D_ + columns_) +
           7 * kWidth<T>;
  }
  void place(T* begin) {
    constexpr int64_t kSlack = kWidth<T>;
    Parts<T> parts(begin);
    key_ = parts.next(S::kKeys * D_ + kSlack);
    value_ = parts.next(S::kKeys * D_ + kSlack);
    key_by_column_ = parts.next(S::kKeys * rows_ + kSlack);
    query_ = parts.next(S::kQueries * D_ + kSlack);
    d_out_ = parts.next(S::kQueries * D_ + kSlack);
    query_by_column_ = parts.next(S::kQueries * columns_ + kSlack);
    d_out_by_column_ = parts.next(S::kQueries * columns_ + kSlack);
    d_key_ = parts.next(S::kKeys * columns_);
    d_value_ = parts.next(S::kKeys * columns_);
  }
  /// Begins a block of `keys` keys, whose gradients are zero.
  void begin_keys(const T* key, int64_t keys) {
    for (int64_t k0 = 0; k0 < keys; k0 += S::kTile) {
      const int64_t count = least(S::kTile, keys - k0);
      const T* const from = key + k0 * shape_.kv_row;
      pack<T, kRows>({from, shape_.kv_row, 1}, count, D_, key_ + k0 * D_);
      pack<T, kRows>({from + shape_.values(), shape_.kv_row, 1}, count, D_, value_ + k0 * D_);
      pack<T, kRows>({from, 1, shape_.kv_row}, D_, count, key_by_column_ + k0 * rows_);
    }
    for (int64_t i = 0; i < S::kKeys * columns_; ++i) d_key_[i] = d_value_[i] = T(0);
  }
  /// Packs `queries` queries and the gradients of their results. Those beyond the last are zeros,
  /// because a product sums over whole panels.
  void begin_queries(const T* query, const T* d_out, int64_t out_row, int64_t queries) {
    depth_ = (queries + kLanes - 1) / kLanes * kLanes;
    pack<T, kLanes>({query, shape_.row, 1}, queries, D_, query_);
    pack<T, kLanes>({d_out, out_row, 1}, queries, D_, d_out_);
    const auto by_column = [&](const T* from, int64_t stride, T* to) {
      for (int64_t c = 0; c < D_; c += kLanes, to += depth_ * kLanes) {
        pack<T, kLanes>({from + c, 1, stride}, least(kLanes, D_ - c), queries, to);
        for (int64_t i = queries * kLanes; i < depth_ * kLanes; ++i) to[i] = T(0);
      }
    };
    by_column(query, shape_.row, query_by_column_);
    by_column(d_out, out_row, d_out_by_column_);
  }
  /// The raw scores of panel p for the first `rows` keys from k0 of the block on.
  void score(int64_t k0, int64_t p, int64_t rows, T* scores, Prefetch& next) const {
    multiply_panels<T>(rows, D_, key_ + k0 * D_, kRows * D_, query_ + p * kLanes * D_, scores,
                       S::kQueries, false, next);
  }
  /// The gradients of their probabilities.
  void d_probs(int64_t k0, int64_t p, int64_t rows, T* d_probs, Prefetch& next) const {
    multiply_panels<T>(rows, D_, value_ + k0 * D_, kRows * D_, d_out_ + p * kLanes * D_, d_probs,
                       S::kQueries, false, next);
  }
  /// Takes the probabilities and the gradients of raw scores of panel p for the next two products:
  /// of `rows` keys, and of more as zeros, up to `all`.
  void take(int64_t, int64_t rows, int64_t all, T* probs, T* d_scores) const {
    for (int64_t j = rows; j < least(S::kTile, all + 3); ++j) {  // products compute a few more
      for (int64_t i = 0; i < kLanes; ++i) {
        probs[j * S::kQueries + i] = d_scores[j * S::kQueries + i] = T(0);
      }
    }
  }
  /// Adds to the gradients of a panel of queries, if they have any, what the first `rows` of
  /// `count` keys give.
  void add_to_query(int64_t k0, int64_t, int64_t count, int64_t rows, const T* d_scores, T* d_query,
                    bool add, Prefetch& next) const {
    multiply_panels<T, Steps<1, kRows, S::kQueries>>(
        D_, rows, key_by_column_ + k0 * rows_, kRows * count, d_scores, d_query, kLanes, add, next);
  }
  /// Adds what all panels give to the gradients of the first `rows` keys and their values.
  void add_to_keys(int64_t k0, int64_t rows, const T* probs, const T* d_scores, Prefetch& next) {
    using ScoresFirst = Steps<S::kQueries, 1, Tile<T>::kCols>;
    for (int64_t c = 0; c < D_; c += kLanes) {
      multiply_panels<T, ScoresFirst>(rows, depth_, probs, kRows * S::kQueries,
                                      d_out_by_column_ + c * depth_, d_value_ + k0 * columns_ + c,
                                      columns_, true, next);
      multiply_panels<T, ScoresFirst>(rows, depth_, d_scores, kRows * S::kQueries,
                                      query_by_column_ + c * depth_, d_key_ + k0 * columns_ + c,
                                      columns_, true, next);
    }
  }
  /// Stores the gradients of key j of the block, and of its value.
  void store_key(int64_t j, T* d_key) const {
    for_vectors<T>(0, D_, [&](int64_t d, auto n) {
      store(d_key + d, load(d_key_ + j * columns_ + d, n), n);
      store(d_key + shape_.values() + d, load(d_value_ + j * columns_ + d, n), n);
    });
  }

 private:
  static constexpr int64_t kRows = Tile<T>::kRows, kLanes = AttentionTile<T>::kLanes;
  const Attention<T>& shape_;
  int64_t D_, rows_, columns_;  // of gradients of queries, which lie transposed, and of keys
  int64_t depth_ = 0;           // lanes of the present panels
  T *key_ = nullptr, *value_ = nullptr, *key_by_column_ = nullptr;
  T *query_ = nullptr, *d_out_ = nullptr, *query_by_column_ = nullptr, *d_out_by_column_ = nullptr;
  T *d_key_ = nullptr, *d_value_ = nullptr;
};

/// Turns a panel of raw scores into probabilities p = 2^(power - norm), and gradients of
/// probabilities into those of raw scores: scale * p * (d - delta), with a cap times 1 - tangent².
/// The keys begin at `first_key` of the sequence. p is at most about 1 where a query sees the key,
/// and chosen away elsewhere.
template <class T, int64_t kQueries, bool kMasked, bool kDrops, bool kCaps>
inline void softmax_backward(T* probs, T* d_scores, int64_t keys, Powers<T> powers, T scale,
                             const T* norm, const T* delta, const Visible<T>& visible,
                             const PanelDropout<T>& dropout, int64_t first_key) {
  constexpr int W = kWidth<T>, kVectors = Tile<T>::kVectors;
  Vec<T> norms[kVectors], deltas[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    norms[v] = load(norm + v * W);
    deltas[v] = load(delta + v * W);
  }
  LaneDraws<T> draws[kVectors];
  for (int v = 0; kDrops && v < kVectors; ++v) draws[v] = dropout.draws(v, first_key);
  for (int64_t j = 0; j < keys; ++j) {
    LOCKSTEP_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = j * kQueries + v * W;
      const Vec<T> begun = powers.template begin<kCaps>(load(probs + at));
      Vec<T> e = exponential2<false>(powers.template end<kCaps>(begun) - norms[v]);
      if (kMasked) e = visible.choose(j, v, e, Vec<T>{});
      Vec<T> d = load(d_scores + at), kept = e;
      if (kDrops) {
        const IntVec<T> dropped = draws[v].next();
        d = dropped ? Vec<T>{} : d * draws[v].kept;
        kept = dropped ? Vec<T>{} : e * draws[v].kept;
      }
      store(probs + at, kept);
      Vec<T> d_score = e * scale * (d - deltas[v]);
      if (kCaps) d_score *= T(1) - begun * begun;
      store(d_scores + at, d_score);
    }
  }
}

/// Handles one (batch, key head) at a time, so that the gradients of keys and values that a group
/// of query heads shares are always added in the same order. `Products` is VectorGradients or
/// alike.
template <class Products, bool kDrops>
void attention_backward(const KernelArgs& args) {
  using T = typename Products::Value;
  using Element = typename Products::Element;
  constexpr int64_t kLanes = AttentionTile<T>::kLanes, kQueries = Products::kQueries;
  constexpr bool kInPlace = std::is_same_v<T, Element>;  // gradients of queries are summed there
  const Attention<T> shape(args, input<std::int32_t>(args, 5), input<std::int32_t>(args, 6));
  const AttentionDropout<T, kDrops> dropout(args, input<std::int32_t>(args, 7));
  const Powers<T> powers(shape);
  const bool caps = shape.cap > 0;
  const auto softmax_all = caps ? softmax_backward<T, kQueries, false, kDrops, true>
                                : softmax_backward<T, kQueries, false, kDrops, false>;
  const auto softmax_masked = caps ? softmax_backward<T, kQueries, true, kDrops, true>
                                   : softmax_backward<T, kQueries, true, kDrops, false>;
  const int64_t D = shape.head_dim, seq = shape.seq, out_row = shape.heads * D;
  const Element* const qkv = input<Element>(args, 0);
  const Element* const o = input<Element>(args, 1);
  const T* const lse = input<T>(args, 2);
  const Element* const d_o = input<Element>(args, 3);
  Element* const dqkv = output<Element>(args, 0);
  const Element* const kv_base = shape.starts ? input<Element>(args, 4) : qkv;
  Element* const d_kv_base = shape.starts ? output<Element>(args, 1) : dqkv;
  parallel(*args.team, shape.batch * shape.kv_heads, 1, [&](int64_t begin, int64_t end) {
    Products products(shape);
    const int64_t panel_size = products.rows() * kLanes, of_head = shape.group * seq;
    const int64_t wide_size = kInPlace ? 0 : of_head * D;
    const int64_t size = 2 * Products::kScores + Products::kPanels * panel_size + of_head +
                         wide_size + products.size();
    Parts<T> parts(
        static_cast<T*>(scratch(Scratch::Tiles, static_cast<std::size_t>(size) * sizeof(T))));
    T* const probs = parts.next(Products::kScores);
    T* const d_scores = parts.next(Products::kScores);
    T* const d_query = parts.next(Products::kPanels * panel_size);
    products.place(parts.next(products.size()));
    T* const wide = parts.next(wide_size);  // gradients of queries, [group, seq, D]
    T* const delta = parts.next(of_head);   // by query: the sum of do * o
    T ones[kLanes];
    for (T& one : ones) one = T(1);
    Prefetch d_keys, d_values;  // where the gradients of the present keys will be stored

    // Adds what the queries of a block give to the gradients of a block of keys, and the reverse.
    // `more` queries come after them; `of` are the sums of this head.
    const auto block = [&](int64_t b, int64_t g, int64_t h, int64_t s0, int64_t queries,
                           int64_t query, int64_t more, int64_t first_key, int64_t keys,
                           bool add_to_queries) {
      const Element* const q = qkv + shape.query(b, h, s0);
      const Element* const d_out = d_o + shape.out(b, h, s0);
      const int64_t panels = (queries + kLanes - 1) / kLanes;
      products.begin_queries(q, d_out, out_row, queries);
      Prefetch d_queries(Lines<Element>{dqkv + shape.query(b, h, s0), shape.row, 1}, queries, D);
      Prefetch next_queries(Lines<Element>{q + queries * shape.row, shape.row, 1}, more, D);
      Prefetch next_d_out(Lines<Element>{d_out + queries * out_row, out_row, 1}, more, D);
      bool begun[Products::kPanels] = {};  // there are gradients of its queries
      PanelDropout<T> panel_dropout[Products::kPanels];
      for (int64_t p = 0; p < panels; ++p) {
        const int64_t first = p * kLanes;
        dropout.begin_panel(h, b * seq + s0 + first, least(kLanes, queries - first),
                            panel_dropout[p]);
      }
      for (int64_t k0 = 0; k0 < keys; k0 += Products::kTile) {
        const int64_t count = least(Products::kTile, keys - k0);
        const int64_t rows = least(count, query + queries - first_key - k0);  // that a query sees
        if (rows <= 0) break;
        for (int64_t p = 0; p < panels; ++p) {
          const int64_t first = p * kLanes, lanes = least(kLanes, queries - first);
          const Visible<T> sees(shape, b, s0 + first, lanes, query + first, first_key + k0, count);
          T* const p_probs = probs + first;
          T* const p_scores = d_scores + first;
          products.score(k0, p, sees.rows, p_probs, next_queries);
          products.d_probs(k0, p, sees.rows, p_scores, next_d_out);
          T norm[kLanes], row_delta[kLanes];
          for (int64_t i = 0; i < kLanes; ++i) {
            // A lane without a query has probabilities of zero.
            norm[i] = i < lanes ? lse[shape.lse(b, h, s0 + first + i)] * T(kPerE) : T(1e30);
            row_delta[i] = i < lanes ? delta[g * seq + s0 + first + i] : T(0);
          }
          const auto softmax = sees.all ? softmax_all : softmax_masked;
          softmax(p_probs, p_scores, sees.rows, powers, shape.scale, norm, row_delta, sees,
                  panel_dropout[p], first_key + k0);
          products.take(p, sees.rows, rows, p_probs, p_scores);
          if (sees.rows == 0) continue;
          products.add_to_query(k0, p, count, sees.rows, p_scores, d_query + p * panel_size,
                                begun[p], d_queries);
          begun[p] = true;
        }
        Prefetch& d_key_or_value = d_keys.done() ? d_values : d_keys;
        products.add_to_keys(k0, rows, probs, d_scores,
                             next_d_out.done() ? d_key_or_value : next_d_out);
      }
      for (int64_t p = 0; p < panels; ++p) {
        T* const sums = d_query + p * panel_size;
        for (int64_t i = 0; !begun[p] && i < panel_size; ++i) sums[i] = T(0);
        const int64_t s = s0 + p * kLanes, lanes = least(kLanes, queries - p * kLanes);
        if constexpr (kInPlace) {
          store_transposed(sums, D, lanes, ones, dqkv + shape.query(b, h, s), shape.row,
                           add_to_queries);
        } else {
          store_transposed(sums, D, lanes, ones, wide + (g * seq + s) * D, D, add_to_queries);
        }
      }
    };

    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / shape.kv_heads, kv = unit % shape.kv_heads;
      for (int64_t g = 0; g < shape.group; ++g) {
        for (int64_t s = 0; s < seq; ++s) {
          const int64_t row = shape.out(b, kv * shape.group + g, s);
          Vec<T> sum{};
          for_vectors<T>(0, D, [&](int64_t d, auto n) {
            sum += load_values(d_o + row + d, n) * load_values(o + row + d, n);
          });
          delta[g * seq + s] = sum_lanes<T>(sum);
        }
      }
      for (int64_t key_piece = 0; key_piece < shape.key_pieces; ++key_piece) {
        for (int64_t k0 = 0; k0 < shape.piece; k0 += Products::kKeys) {
          const int64_t keys = least(Products::kKeys, shape.piece - k0);
          const int64_t first_key = shape.key_start(key_piece) + k0;
          const int64_t key_at = shape.key(b, kv, key_piece, k0);
          products.begin_keys(kv_base + key_at, keys);
          // The first block of keys begins the gradients of all queries, those of later documents
          // too, unless they have met others before.
          const bool begun = (kInPlace && args.accumulate) || key_piece > 0 || k0 > 0;
          bool asked = false;  // for the memory of the keys' gradients
          for (int64_t g = 0; g < shape.group; ++g) {
            for (int64_t query_piece = 0; query_piece < shape.query_pieces; ++query_piece) {
              const int64_t start = shape.query_start(query_piece);
              const int64_t ahead = first_key - start;  // of the keys, of the piece's first query
              // Unless gradients are summed elsewhere, which then begin even where none are added.
              for (int64_t q0 = ahead > 0 && begun ? ahead / kQueries * kQueries : 0;
                   q0 < shape.piece; q0 += kQueries) {
                const int64_t s0 = query_piece * shape.piece + q0;
                const int64_t queries = least(kQueries, shape.piece - q0);
                if (begun && shape.hidden(b, s0, first_key) >= keys) break;
                const int64_t last = queries - 1;
                if (begun && shape.seen(b, s0 + last, start + q0 + last, first_key) < 1) continue;
                const int64_t more = least(kQueries, shape.piece - q0 - queries);
                // Not earlier, for they would not stay in L2.
                constexpr int64_t kBlocksAhead = 4;
                if (g + 1 == shape.group && query_piece + 1 == shape.query_pieces && !asked &&
                    shape.piece - q0 <= kBlocksAhead * kQueries) {
                  Element* const d_key = d_kv_base + key_at;
                  d_keys = Prefetch(Lines<Element>{d_key, shape.kv_row, 1}, keys, D);
                  d_values =
                      Prefetch(Lines<Element>{d_key + shape.values(), shape.kv_row, 1}, keys, D);
                  asked = true;
                }
                block(b, g, kv * shape.group + g, s0, queries, start + q0, more, first_key, keys,
                      begun);
              }
            }
          }
          for (int64_t j = 0; j < keys; ++j) {
            products.store_key(j, d_kv_base + key_at + j * shape.kv_row);
          }
        }
      }
      if constexpr (!kInPlace) {
        for (int64_t row = 0; row < of_head; ++row) {
          const int64_t h = kv * shape.group + row / seq;
          Element* const to = dqkv + shape.query(b, h, row % seq);
          for_vectors<T>(0, D, [&](int64_t d, auto n) {
            const Vec<T> sum = load(wide + row * D + d, n);
            store_values(to + d, args.accumulate ? load_values(to + d, n) + sum : sum, n);
          });
        }
      }
    }
  });
}

template <class T>
void run_attention_backward(const KernelArgs& args) {
  using Products = VectorGradients<T>;
  args.in[7] != nullptr ? attention_backward<Products, true>(args)
                        : attention_backward<Products, false>(args);
}

}  // namespace
}  // namespace lockstep::cpu
