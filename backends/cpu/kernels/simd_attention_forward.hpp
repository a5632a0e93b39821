// Attention's forward pass. Included by isa_*.cpp only.
#pragma once

#include <type_traits>

#include "backends/cpu/kernels/simd_attention.hpp"

namespace lockstep::cpu {
namespace {

/// The running softmax of one panel of queries.
template <class T>
struct RunningSoftmax {
  static constexpr int64_t kLanes = AttentionTile<T>::kLanes;
  /// By how much a score may exceed `m` before m follows it: sums grow by that factor at most, and
  /// what has been summed need not be multiplied each time that the maximum grows a little.
  static constexpr T kSlack = 8;
  T m[kLanes];  // by lane: about the largest score so far, in powers of two; -infinity before any
  T l[kLanes];  // and the sum of 2^(score - m)

  /// Turns a tile of raw scores [keys, kLanes] into 2^(power - m), and 0 where a lane does not see
  /// the key, and updates m and l. Fills `correction` with 2^(old m - new m), and returns
  /// whether m has changed. Dropout is applied to what is stored, not to the sums: the tile begins
  /// at `first_key` of the sequence.
  template <bool kMasked, bool kDrops, bool kCaps>
  bool add(T* scores, int64_t keys, Powers<T> powers, const Visible<T>& visible,
           const PanelDropout<T>& dropout, int64_t first_key, T* correction) {
    constexpr int W = kWidth<T>, kVectors = Tile<T>::kVectors;
    const Vec<T> lowest = splat<T>(-__builtin_huge_val());
    Vec<T> top[kVectors], base[kVectors], sums[kVectors] = {};
    for (int v = 0; v < kVectors; ++v) top[v] = lowest;
    for (int64_t j = 0; j < keys; ++j) {
      LOCKSTEP_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        Vec<T> score = load(scores + j * kLanes + v * W);
        if (kMasked) score = visible.choose(j, v, score, lowest);
        top[v] = max<T>(score, top[v]);
      }
    }
    IntVec<T> changes{};
    for (int v = 0; v < kVectors; ++v) {
      const Vec<T> old = load(m + v * W);
      Vec<T> scaled = powers.template of<kCaps>(top[v]);
      if (kCaps && kMasked) scaled = top[v] == lowest ? lowest : scaled;  // not the lowest tangent
      const Vec<T> now = scaled > old + kSlack ? scaled : old;
      base[v] = now == lowest ? Vec<T>{} : now;  // lanes that have seen no key yet
      changes |= now != old;
      store(correction + v * W, exponential2<false>(old - base[v]));
      store(m + v * W, now);
    }
    LaneDraws<T> draws[kVectors];
    for (int v = 0; kDrops && v < kVectors; ++v) draws[v] = dropout.draws(v, first_key);
    for (int64_t j = 0; j < keys; ++j) {
      LOCKSTEP_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        T* const at = scores + j * kLanes + v * W;
        Vec<T> e = exponential2<false>(powers.template of<kCaps>(load(at)) - base[v]);
        if (kMasked) e = visible.choose(j, v, e, Vec<T>{});
        sums[v] += e;
        if (kDrops) e = draws[v].next() ? Vec<T>{} : e * draws[v].kept;
        store(at, e);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      store(l + v * W, load(l + v * W) * load(correction + v * W) + sums[v]);
    }
    std::uint64_t words[sizeof changes / sizeof(std::uint64_t)], any = 0;
    __builtin_memcpy(words, &changes, sizeof changes);
    for (const std::uint64_t word : words) any |= word;
    return any != 0;
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

/// The products of attention's forward pass, in vectors of T: of a panel of queries with a block of
/// keys, and of probabilities with their values. Keys and values are packed once for all panels of
/// a tile of queries. Scores are [kKeys, kLanes], sums [rows, kLanes].
template <class T>
class VectorProducts {
 public:
  using Value = T;    // of scores and sums
  using Element = T;  // of queries, keys and values in memory
  static constexpr int64_t kKeys = AttentionTile<T>::kKeys, kLanes = AttentionTile<T>::kLanes;
  static constexpr int64_t kMostTiles = 16;  // of a block

  explicit VectorProducts(const Attention<T>& shape)
      : shape_(shape), D_(shape.head_dim), rows_(padded_rows<T>(D_)) {
    constexpr int64_t kBytes = Tile<T>::kBlockBytes / 8 * 5;  // of a block, in L2
    const int64_t tile = kKeys * (D_ + rows_) * static_cast<int64_t>(sizeof(T));
    tiles_ = kBytes < tile ? 1 : least(kBytes / tile, kMostTiles);
  }
  int64_t rows() const { return rows_; }
  int64_t tiles() const { return tiles_; }
  /// Elements of scratch memory. Packing writes up to a vector beyond a panel.
  int64_t size() const { return tiles_ * kKeys * (D_ + rows_) + kLanes * D_ + 3 * kWidth<T>; }
  void place(T* at) {
    query_ = at;
    keys_ = query_ + kLanes * D_ + kWidth<T>;
    values_ = keys_ + tiles_ * kKeys * D_ + kWidth<T>;
  }
  void pack_query(const T* query, int64_t lanes) {
    pack<T, kLanes>({query, shape_.row, 1}, lanes, D_, query_);
  }
  /// Packs `count` keys, and their values, as tile t.
  void pack_keys(int64_t t, const T* key, int64_t count) {
    const T* const value = key + shape_.values();
    pack<T, kRows>({key, shape_.kv_row, 1}, count, D_, keys_ + t * kKeys * D_);
    pack<T, kRows>({value, 1, shape_.kv_row}, D_, count, values_ + t * kKeys * rows_);
  }
  /// The raw scores of the first `rows` keys of tile t.
  void score(int64_t t, int64_t rows, T* scores, Prefetch& next) const {
    multiply_panels<T>(rows, D_, keys_ + t * kKeys * D_, kRows * D_, query_, scores, kLanes, false,
                       next);
  }
  /// Adds the values of tile t, which has `count` keys, with the probabilities of the first `rows`;
  /// `add` if there is a sum.
  void add_values(int64_t t, int64_t count, int64_t rows, const T* probs, T* sums, bool add,
                  Prefetch& next) {
    multiply_panels<T>(D_, rows, values_ + t * kKeys * rows_, kRows * count, probs, sums, kLanes,
                       add, next);
  }

 private:
  static constexpr int64_t kRows = Tile<T>::kRows;
  const Attention<T>& shape_;
  int64_t D_, rows_, tiles_ = 1;
  T *query_ = nullptr, *keys_ = nullptr, *values_ = nullptr;
};

/// Handles one tile of queries of one head at a time. `Products` is VectorProducts or alike.
template <class Products, bool kDrops>
void attention_forward(const KernelArgs& args) {
  using T = typename Products::Value;
  using Element = typename Products::Element;
  using A = AttentionTile<T>;
  constexpr int64_t kLanes = A::kLanes, kKeys = Products::kKeys;
  const Attention<T> shape(args, input<std::int32_t>(args, 2), input<std::int32_t>(args, 3));
  const AttentionDropout<T, kDrops> dropout(args, input<std::int32_t>(args, 4));
  const Powers<T> powers(shape);
  const bool caps = shape.cap > 0;
  const int64_t D = shape.head_dim, out_row = shape.heads * D;
  const int64_t tiles = (shape.piece + A::kQueries - 1) / A::kQueries;
  const int64_t units = shape.query_pieces * tiles;
  const Element* const qkv = input<Element>(args, 0);
  const Element* const kv_base = shape.starts ? input<Element>(args, 1) : qkv;
  Element* const out = output<Element>(args, 0);
  parallel(*args.team, shape.batch * shape.heads * units, 1, [&](int64_t begin, int64_t end) {
    Products products(shape);
    const int64_t rows = products.rows(), tiles_of_block = products.tiles();
    const int64_t sums_size = A::kPanels * rows * kLanes;
    const int64_t size = kKeys * kLanes + sums_size + products.size();
    T* const scores =
        static_cast<T*>(scratch(Scratch::Tiles, static_cast<std::size_t>(size) * sizeof(T)));
    T* const sums = scores + kKeys * kLanes;  // running outputs, not yet divided by l
    products.place(sums + sums_size);
    bool packed[Products::kMostTiles];  // tiles of the present block of keys
    RunningSoftmax<T> softmax[A::kPanels];
    PanelDropout<T> panel_dropout;
    Prefetch later_keys, later_values;  // of the next head
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
      // The first panels, whose products are short, have no time to ask for keys themselves.
      const int64_t next_b = (unit + 1) / units / shape.heads;
      const int64_t next_kv = (unit + 1) / units % shape.heads / shape.group;
      if (unit + 1 < end && (next_b != b || next_kv != kv)) {
        const Element* const key = kv_base + shape.key(next_b, next_kv, 0, 0);
        const int64_t count = least(shape.piece, 3 * kKeys);
        later_keys = Prefetch(Lines<Element>{key, shape.kv_row, 1}, count, D);
        later_values = Prefetch(Lines<Element>{key + shape.values(), shape.kv_row, 1}, count, D);
      }
      bool begun[A::kPanels];  // the panel has a running output
      // Whether one block has all keys, so that each panel is done before the next begins.
      const int64_t most_keys = tiles_of_block * kKeys;
      const bool once =
          shape.key_pieces == 1 &&
          shape.visible(0, q0 + queries) - shape.earlier(b, s0, 0, kKeys) <= most_keys;
      const auto sum_of = [&](int64_t p) { return sums + (once ? 0 : p * rows * kLanes); };

      // Begins panel p. The softmax goes on from what other keys gave, whose sum is exp(lse).
      const auto begin_panel = [&](int64_t p) {
        const int64_t first = p * kLanes, lanes = least(kLanes, queries - first);
        begun[p] = args.accumulate;
        for (int64_t i = 0; i < kLanes; ++i) {
          const bool on = args.accumulate && i < lanes;
          softmax[p].m[i] = on ? output<T>(args, 1)[shape.lse(b, h, s0 + first + i)] * T(kPerE)
                               : -__builtin_huge_val();
          softmax[p].l[i] = on ? T(1) : T(0);
        }
        if (!args.accumulate) return;
        load_transposed(out + shape.out(b, h, s0 + first), out_row, lanes, D, sum_of(p));
      };
      const auto finish_panel = [&](int64_t p) {
        const int64_t first = p * kLanes, lanes = least(kLanes, queries - first);
        const RunningSoftmax<T>& running = softmax[p];
        T inverse[kLanes];
        for (int64_t i = 0; i < lanes; ++i) {
          inverse[i] = T(1) / running.l[i];
          output<T>(args, 1)[shape.lse(b, h, s0 + first + i)] =
              static_cast<T>(static_cast<double>(running.m[i]) / kPerE +
                             __builtin_log(static_cast<double>(running.l[i])));
        }
        store_transposed(sum_of(p), D, lanes, inverse, out + shape.out(b, h, s0 + first), out_row,
                         false);
      };
      // Attends from panel p to the keys from k0 of a piece on, whose tiles are those of the block.
      const auto attend = [&](int64_t p, int64_t key_piece, int64_t k0, int64_t visible) {
        const int64_t first = p * kLanes, lanes = least(kLanes, queries - first);
        const int64_t start = shape.key_start(key_piece);
        const int64_t seen = shape.visible(key_piece, q0 + first + lanes);
        T* const sum = sum_of(p);
        dropout.begin_panel(h, b * shape.seq + s0 + first, lanes, panel_dropout);
        bool query_packed = false;
        // Rows that are about to be needed: those of the result, the next panel's queries, and keys
        // and values that no query before it sees.
        const int64_t next = s0 + first + kLanes, more = least(kLanes, queries - first - kLanes);
        const Element* const key = kv_base + shape.key(b, kv, key_piece, seen);
        Prefetch outputs(Lines<Element>{out + shape.out(b, h, s0 + first), out_row, 1}, lanes, D);
        Prefetch queries_ahead(Lines<Element>{qkv + shape.query(b, h, next), shape.row, 1}, more,
                               D);
        Prefetch keys_ahead(Lines<Element>{key, shape.kv_row, 1}, least(more, visible - seen), D);
        Prefetch values_ahead(Lines<Element>{key + shape.values(), shape.kv_row, 1},
                              least(more, visible - seen), D);
        Prefetch* const in_order[] = {&queries_ahead, &outputs,    &keys_ahead,
                                      &values_ahead,  &later_keys, &later_values};
        const auto ahead = [&]() -> Prefetch& {
          for (Prefetch* const rows : in_order) {
            if (!rows->done()) return *rows;
          }
          return outputs;
        };
        for (int64_t t = 0; t < tiles_of_block && k0 < visible; ++t, k0 += kKeys) {
          const int64_t keys = least(kKeys, visible - k0);
          const Visible<T> sees(shape, b, s0 + first, lanes, q0 + first, start + k0, keys);
          if (sees.rows == 0) break;
          if (shape.hidden(b, s0 + first, start + k0) >= keys) continue;
          if (!packed[t]) products.pack_keys(t, kv_base + shape.key(b, kv, key_piece, k0), keys);
          packed[t] = true;
          if (!query_packed) products.pack_query(qkv + shape.query(b, h, s0 + first), lanes);
          query_packed = true;
          products.score(t, sees.rows, scores, ahead());
          const auto add = [&](auto masked, auto capped) {
            return softmax[p].template add<masked.value, kDrops, capped.value>(
                scores, sees.rows, powers, sees, panel_dropout, start + k0, correction);
          };
          const auto add_seen = [&](auto capped) {
            return sees.all ? add(std::false_type{}, capped) : add(std::true_type{}, capped);
          };
          const bool changed = caps ? add_seen(std::true_type{}) : add_seen(std::false_type{});
          if (begun[p] && changed) scale_lanes(sum, D, correction);
          products.add_values(t, keys, sees.rows, scores, sum, begun[p], ahead());
          begun[p] = true;
        }
      };
      for (int64_t p = 0; !once && p < panels; ++p) begin_panel(p);
      for (int64_t key_piece = 0; key_piece < shape.key_pieces; ++key_piece) {
        const int64_t visible = shape.visible(key_piece, q0 + queries);
        for (int64_t k0 = shape.earlier(b, s0, key_piece, kKeys); k0 < visible; k0 += most_keys) {
          for (bool& tile : packed) tile = false;
          for (int64_t p = 0; p < panels; ++p) {
            if (once) begin_panel(p);
            attend(p, key_piece, k0, visible);
            if (once) finish_panel(p);
          }
        }
      }
      for (int64_t p = 0; !once && p < panels; ++p) finish_panel(p);
    }
  });
}

template <class T>
void run_attention_forward(const KernelArgs& args) {
  using Products = VectorProducts<T>;
  args.in[4] != nullptr ? attention_forward<Products, true>(args)
                        : attention_forward<Products, false>(args);
}

}  // namespace
}  // namespace lockstep::cpu
