// Attention with grouped queries, causal or not, tile by tile (Dao, FlashAttention-2, 2023): scores
// exist only as one tile of scratch memory. This file has what both directions share. Included by
// isa_*.cpp only.
//
// Scores are computed transposed, [keys, queries]: the lanes of a vector are neighbouring queries.
// Maxima and sums of the softmax then go down the keys, lane by lane, and a tile of probabilities
// is, as it lies, an operand of the product with the values.
#pragma once

#include "backends/cpu/kernels/simd_bfloat16.hpp"
#include "backends/cpu/kernels/simd_gemm.hpp"
#include "backends/cpu/kernels/simd_math.hpp"
#include "core/base/dropout.hpp"

namespace lockstep::cpu {
namespace {

/// How queries and keys are cut into tiles. The number of keys fixes the order of sums.
template <class T>
struct AttentionTile {
  static constexpr int64_t kLanes = Tile<T>::kCols;  // queries of a panel
  static constexpr int64_t kPanels = 32;             // of a tile, for which keys are packed once
  static constexpr int64_t kQueries = kLanes * kPanels;
  static constexpr int64_t kKeys = Tile<T>::kRows * (Tile<T>::kRows == 14 ? 8 : 20);
};

/// Rows of a panel's product in scratch memory: whole tiles of registers are written, and whole
/// vectors are read when it is transposed.
template <class T>
inline int64_t padded_rows(int64_t rows) {
  const auto padded = [rows](int64_t to) { return (rows + to - 1) / to * to; };
  const int64_t tiles = padded(Tile<T>::kRows), vectors = padded(kWidth<T>);
  return tiles > vectors ? tiles : vectors;
}

/// c [rows, kCols] = [c +] a b. `a` lies in panels of kRows rows that are `panel` elements apart, b
/// is one panel of kCols columns; S says how either lies. Rows of c are ldc apart, and it has
/// padded_rows(rows) of them. `next` is what will be packed next.
template <class T, class S = PackedSteps<T>>
inline void multiply_panels(int64_t rows, int64_t depth, const T* a, int64_t panel, const T* b,
                            T* c, int64_t ldc, bool add, Prefetch& next) {
  constexpr int64_t kRows = Tile<T>::kRows;
  constexpr int64_t kStep = kRows == 14 ? 4 : 2;  // multiply_rows computes multiples of it, or all
  Epilogue<T> epilogue;
  epilogue.add_c = add;
  const T* const absent = nullptr;
  const int columns = Tile<T>::kCols;
  for (int64_t i = 0; i < rows; i += kRows) {
    const int64_t computed = least((rows - i + kStep - 1) / kStep * kStep, kRows);
    multiply_rows<T, S>(depth, a + i / kRows * panel, b, c + i * ldc, ldc,
                        static_cast<int>(computed), columns, epilogue, absent, absent, next);
  }
}

/// Stores the panel `from` [rows, kLanes], which has whole vectors of rows, as one row of `to` for
/// each of the first `lanes` queries, `stride` apart: to[lane][row] = [to +] from[row][lane] *
/// factor[lane].
template <class T, class Element>
inline void store_transposed(const T* from, int64_t rows, int64_t lanes, const T* factor,
                             Element* to, int64_t stride, bool add) {
  constexpr int64_t W = kWidth<T>, kLanes = AttentionTile<T>::kLanes;
  for (int64_t first = 0; first < lanes; first += W, to += W * stride) {
    const Vec<T> factors = load(factor + first);
    const int64_t count = least(W, lanes - first);
    for (int64_t r = 0; r < rows; r += W) {
      Vec<T> block[W];
      LOCKSTEP_UNROLL
      for (int i = 0; i < W; ++i) block[i] = load(from + (r + i) * kLanes + first) * factors;
      transpose<T>(block);
      T lines[W * W];
      LOCKSTEP_UNROLL
      for (int i = 0; i < W; ++i) store(lines + i * W, block[i]);
      for (int64_t i = 0; i < count; ++i) {
        Element* const at = to + i * stride + r;
        const auto put = [&](auto n) {
          const Vec<T> line = load(lines + i * W, n);
          store_values(at, add ? load_values(at, n) + line : line, n);
        };
        rows - r >= W ? put(Full{}) : put(Part{static_cast<int>(rows - r)});
      }
    }
  }
}

inline constexpr double kPerE = 1.44269504088896340736;  // 1 / ln 2: exp(x) = 2^(kPerE x)

/// Loads the first `lanes` rows of `from` as a panel: to[i][lane] = from[lane][i], and 0 beyond.
template <class T>
inline void load_transposed(const T* from, int64_t stride, int64_t lanes, int64_t rows, T* to) {
  pack<T, AttentionTile<T>::kLanes>({from, stride, 1}, lanes, rows, to);
}
inline void load_transposed(const Bits* from, int64_t stride, int64_t lanes, int64_t rows,
                            float* to) {
  constexpr int64_t kLanes = AttentionTile<float>::kLanes;
  for (int64_t r = 0; r < rows; ++r, to += kLanes) {
    for (int64_t i = 0; i < kLanes; ++i) to[i] = i < lanes ? value_of(from[i * stride + r]) : 0;
  }
}

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
  const std::int32_t* ends;       // and where they end, if queries see later keys, too; else null
  int64_t later;   // by how much queries count as later than they are; they see all earlier keys
  double divisor;  // of scores: the inverse of the scale
  double cap;      // of scores so divided; 0: none
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
        ends(document_starts && args.dims[7] ? document_starts + batch * seq : nullptr),
        later(args.dims[7] << 40),
        divisor(args.scalars[1] > 0 ? 1 / args.scalars[1]
                                    : __builtin_sqrt(static_cast<double>(head_dim))),
        cap(args.scalars[2]),
        scale(static_cast<T>(1 / divisor)) {}
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
  /// How many of the keys from `first_key` on come before those that query s does not see, because
  /// they are later than it or its document; less than 1 if none do. It stands at `query`.
  int64_t seen(int64_t b, int64_t s, int64_t query, int64_t first_key) const {
    return (ends ? ends[b * seq + s] : query + 1) - first_key;
  }
  /// How many keys of a piece queries before `query_end` of the sequence see at most.
  int64_t visible(int64_t key_piece, int64_t query_end) const {
    const int64_t keys = query_end - key_start(key_piece);
    return keys < 0 ? 0 : least(piece, keys);
  }
  /// Where the tile of `tile` keys of a piece begins at which those begin that query s and later
  /// ones may see.
  int64_t earlier(int64_t b, int64_t s, int64_t key_piece, int64_t tile) const {
    return hidden(b, s, key_start(key_piece)) / tile * tile;
  }
  int64_t out(int64_t b, int64_t h, int64_t s) const {
    return ((b * seq + s) * heads + h) * head_dim;
  }
  int64_t lse(int64_t b, int64_t h, int64_t s) const { return (b * heads + h) * seq + s; }
};

/// Scores of the softmax, in powers of two, made of raw ones: exp(score) = 2^power. With a cap they
/// are cap tanh(scale raw / cap). Whether there is one is known at compile time where vectors are
/// computed, so that attention without a cap does not ask.
template <class T>
struct Powers {
  T factor;  // of raw scores: the scale / ln 2, or, before the tangent, the scale / cap
  T limit;   // of the tangent: cap / ln 2
  explicit Powers(const Attention<T>& shape)
      : factor(static_cast<T>((shape.cap > 0 ? 1 / shape.cap : kPerE) / shape.divisor)),
        limit(static_cast<T>(shape.cap * kPerE)) {}
  /// What is between: a power, or the tangent.
  template <bool kCaps>
  Vec<T> begin(Vec<T> raw) const {
    if constexpr (kCaps) return hyperbolic_tangent<T>(raw * factor);
    return raw * factor;
  }
  template <bool kCaps>
  Vec<T> end(Vec<T> begun) const {
    if constexpr (kCaps) return begun * limit;
    return begun;
  }
  template <bool kCaps>
  Vec<T> of(Vec<T> raw) const {
    return end<kCaps>(begin<kCaps>(raw));
  }
};

/// Which keys of a tile the queries of a panel see: lane i those from begin[i] to before end[i].
template <class T>
struct Visible {
  static constexpr int64_t kLanes = AttentionTile<T>::kLanes;
  T begin[kLanes], end[kLanes];  // small integers
  bool all = true;               // every lane sees every key
  int64_t rows = 0;              // no lane sees a key from here on

  /// Of the `lanes` queries from own token s on, the first of which stands at `query` of the
  /// sequence; the tile's `keys` begin there at `first_key`. Lanes beyond are like the last.
  Visible(const Attention<T>& shape, int64_t b, int64_t s, int64_t lanes, int64_t query,
          int64_t first_key, int64_t keys) {
    rows = shape.seen(b, s + lanes - 1, query + lanes - 1, first_key);
    rows = rows < 0 ? 0 : least(rows, keys);
    const bool causal = shape.seen(b, s, query, first_key) < keys;
    if (!causal && shape.hidden(b, s + lanes - 1, first_key) == 0) return;
    all = false;
    for (int64_t i = 0; i < kLanes; ++i) {
      const int64_t lane = least(i, lanes - 1);
      begin[i] = static_cast<T>(least(keys, shape.hidden(b, s + lane, first_key)));
      end[i] = static_cast<T>(least(keys, shape.seen(b, s + lane, query + lane, first_key)));
    }
  }
  /// Of the lanes of vector v: `seen` where they see the key, else `hidden`.
  Vec<T> choose(int64_t key, int v, Vec<T> seen, Vec<T> hidden) const {
    const Vec<T> k = splat(static_cast<T>(key));
    const IntVec<T> sees = (k >= load(begin + v * kWidth<T>)) & (k < load(end + v * kWidth<T>));
    return sees ? seen : hidden;
  }
};

/// What lanes of queries draw for one key after another: whether DropoutRow::bits() of the key is
/// below a limit, in fewer operations.
template <class T>
struct LaneDraws {
  WordVec<T> begin;         // of the rows, and the present key's column
  WordVec<T> mask;          // of the rows, with what the second round's shift makes of it
  WordVec<T> below, above;  // the limits, and their upper halves
  Vec<T> kept;              // what probabilities are multiplied by that are not dropped

  /// Which lanes drop the present key; goes on to the next one. The last step of bits() changes the
  /// lower half of a word by the upper one, and the lower half counts only if the upper one equals
  /// the limit's: the limit's does as well, and is known before.
  IntVec<T> next() {
    WordVec<T> x = (begin ^ (begin >> 16)) * DropoutRow::kFirstRound;
    begin += DropoutRow::kColumn;
    x = (x ^ (x >> 15) ^ mask) * DropoutRow::kSecondRound;
    return __builtin_convertvector((x ^ above) < below, IntVec<T>);
  }
};

/// The dropout of a panel of queries in a head.
template <class T>
struct PanelDropout {
  static constexpr int64_t kLanes = AttentionTile<T>::kLanes;
  std::uint32_t begin[kLanes], mask[kLanes], below[kLanes];
  T kept[kLanes];

  /// The draws of the lanes of vector v for the keys from `first` of the sequence on.
  LaneDraws<T> draws(int v, int64_t first) const {
    const int64_t at = v * kWidth<T>;
    const auto words = [at](const std::uint32_t* from) {
      WordVec<T> lanes;
      __builtin_memcpy(&lanes, from + at, sizeof lanes);
      return lanes;
    };
    const WordVec<T> masks = words(mask), limits = words(below);
    return {words(begin) + static_cast<std::uint32_t>(first) * DropoutRow::kColumn,
            masks ^ (masks >> 15), limits, limits >> 16, load(kept + at)};
  }
};

/// The dropout of a call's probabilities. Whether there is any is known at compile time, so that
/// attention without dropout does not ask.
template <class T, bool kDrops>
struct AttentionDropout {
  const std::int32_t* heads;  // numbers of the heads
  const std::int32_t* keys;   // of the queries
  int layer;
  std::uint32_t below;
  T kept;
  AttentionDropout(const KernelArgs& args, const std::int32_t* operand)
      : heads(operand),
        keys(kDrops ? heads + args.dims[2] : nullptr),
        layer(args.layer),
        below(dropped_below(args.scalars[0])),
        kept(static_cast<T>(1 / (1 - args.scalars[0]))) {}
  /// Fills `panel` with that of the `lanes` queries from `row` on, counted over all sequences, in
  /// head h. Nothing is dropped of lanes beyond.
  void begin_panel(int64_t h, int64_t row, int64_t lanes, PanelDropout<T>& panel) const {
    if (!kDrops) return;
    for (int64_t i = 0; i < PanelDropout<T>::kLanes; ++i) {
      const std::int32_t key = i < lanes ? keys[row + i] : kNothingDropped;
      const DropoutRow lane = DropoutRow::of_query(key, layer, heads[h]);
      panel.begin[i] = lane.begin;
      panel.mask[i] = lane.mask;
      panel.below[i] = key >= 0 ? below : 0;
      panel.kept[i] = key >= 0 ? kept : T(1);
    }
  }
};

}  // namespace
}  // namespace lockstep::cpu
