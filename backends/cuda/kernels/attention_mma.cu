// Attention of bfloat16 heads of 64 or 128 elements on tensor cores (Dao, FlashAttention-2, 2023).
// A warp owns 16 rows of a tile. Weights, which are sums of one product and an operand of the next,
// stay in registers. Backward makes two passes, so that no sum needs atomic additions.
#include "backends/cuda/kernels/attention.hpp"
#include "backends/cuda/kernels/attention_tiles.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

using namespace tiles;  // NOLINT(google-build-using-namespace): the halves of one file

constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kLn2 = 0.69314718055994530942f;

/// 1 / x.
__device__ __forceinline__ float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1 / x;
#endif
}
/// tanh(x) with an absolute error of about 2^-22, which a score's cap multiplies.
__device__ __forceinline__ float hyperbolic_tangent(float x) {
  return 1 - 2 * reciprocal(1 + power_of_two(2 * kLog2E * x));
}

/// Scores of the softmax, in powers of two, made of products of queries and keys: exp(score) =
/// 2^power. Whether they are capped is known at compile time.
template <bool kCaps>
struct Powers {
  float factor;  // of products: the scale / ln 2, or, before the tangent, the scale / cap
  float limit;   // of the tangent: cap / ln 2
  __device__ __forceinline__ explicit Powers(const Attention<BF16>& a)
      : factor(kCaps ? a.scale / a.cap : a.scale * kLog2E), limit(a.cap * kLog2E) {}
  /// What is between: a power, or the tangent.
  __device__ __forceinline__ float begin(float product) const {
    return kCaps ? hyperbolic_tangent(product * factor) : product * factor;
  }
  __device__ __forceinline__ float end(float begun) const { return kCaps ? begun * limit : begun; }
};

/// Limits x to places in a tile or beside it, so that it fits an int.
__device__ __forceinline__ int clamped(int64_t x) {
  return static_cast<int>(greater<int64_t>(smaller<int64_t>(x, 2 * kTile), -2 * kTile));
}

/// The tile of queries of a block. The last tile in the sequence comes first, because its queries
/// see most keys.
struct QueryTile {
  int64_t piece, first;
  __device__ explicit QueryTile(int64_t length) {
    const int64_t tiles = (length + kTile - 1) / kTile;
    const int64_t tile = static_cast<int64_t>(gridDim.x) - 1 - blockIdx.x;
    piece = tile / tiles;
    first = tile % tiles * kTile;
  }
};

/// Walks the tiles of kKeys keys that a tile of queries sees. If keys are not gathered, they are
/// one piece, of which a query sees no later key. That is known at compile time to save registers,
/// and so is whether there are documents (kPacked). Attention that is not causal goes the way of
/// gathered keys, with one piece.
template <bool kGathered, bool kPacked, int kKeys>
struct KeyTiles {
  int64_t piece = 0, k0 = 0;
  /// The first of them. Unless the kernel adds to what other keys gave, or documents begin later,
  /// it begins the first piece.
  __device__ __forceinline__ KeyTiles(const Attention<BF16>& a, const QueryTile& tile) {
    k0 = begin(a, tile);
    if (kGathered && (kPacked || a.adds)) skip(a, tile);
  }
  __device__ __forceinline__ int64_t begin(const Attention<BF16>& a, const QueryTile& tile) const {
    if (!kPacked || !more(a)) return 0;
    return a.first_key(blockIdx.z, a.place(tile.piece, tile.first), piece, kKeys);
  }
  __device__ __forceinline__ static int64_t end(const Attention<BF16>& a, const QueryTile& tile,
                                                int64_t key_piece) {
    if (!kGathered) return smaller(a.piece, tile.first + kTile);
    return a.keys_seen(tile.piece, tile.first + kTile, key_piece);
  }
  __device__ __forceinline__ bool more(const Attention<BF16>& a) const {
    return piece < (kGathered ? a.key_pieces : 1);
  }
  __device__ __forceinline__ void next(const Attention<BF16>& a, const QueryTile& tile) {
    k0 += kKeys;
    skip(a, tile);
  }
  /// Goes on to the next piece, as long as nothing more of this one is seen.
  __device__ __forceinline__ void skip(const Attention<BF16>& a, const QueryTile& tile) {
    while (more(a) && k0 >= end(a, tile, piece)) {
      ++piece;
      k0 = begin(a, tile);
    }
  }
};

/// Where the documents begin of the two rows of a lane, of which only the first `rows` exist, and
/// where they end if rows see later keys, too.
template <bool kPacked>
struct RowDocuments {
  std::int32_t begin[2] = {0, 0}, end[2] = {INT32_MAX, INT32_MAX};
  __device__ __forceinline__ RowDocuments(const Attention<BF16>& a, const Lane& lane, int64_t b,
                                          int64_t s0, int64_t rows) {
    for (int half = 0; kPacked && half < 2; ++half) {
      const int64_t r = smaller<int64_t>(lane.warp * 16 + lane.g + 8 * half, rows - 1);
      begin[half] = a.documents[b * a.seq + s0 + r];
      if (a.whole) end[half] = a.documents[(a.batch + b) * a.seq + s0 + r];
    }
  }
  /// How many keys from k0 of a piece on come before the document's end.
  __device__ __forceinline__ int seen(const Attention<BF16>& a, int half, int64_t key_piece,
                                      int64_t k0) const {
    if (!kPacked) return 2 * kTile;
    return clamped(end[half] - a.key_start(key_piece) - k0);
  }
  /// How many keys from k0 of a piece on come before the document.
  __device__ __forceinline__ int hidden(const Attention<BF16>& a, int half, int64_t key_piece,
                                        int64_t k0) const {
    if (!kPacked) return 0;
    return clamped(begin[half] - a.key_start(key_piece) - k0);
  }
};

/// The dropout of the two rows of a lane, of which only the first `rows` exist.
template <bool kDrops>
struct RowDropout {
  QueryDropout<float> low, high;
  __device__ __forceinline__ RowDropout(const Attention<BF16>& a, const Lane& lane, int64_t b,
                                        int64_t h, int64_t s0, int64_t rows)
      : low(of_row(a, b, h, s0, lane.warp * 16 + lane.g, rows)),
        high(of_row(a, b, h, s0, lane.warp * 16 + lane.g + 8, rows)) {}
  __device__ __forceinline__ static QueryDropout<float> of_row(const Attention<BF16>& a, int64_t b,
                                                               int64_t h, int64_t s0, int64_t row,
                                                               int64_t rows) {
    if (!kDrops) return {DropoutRow(0, 0, 0), 0, 1};
    return a.dropout_of(b, h, s0 + smaller<int64_t>(row, rows - 1));
  }
  __device__ __forceinline__ float factor(int half, int64_t position) const {
    return half == 0 ? low.factor(position) : high.factor(position);
  }
};

/// There is a block for each (tile of queries, head, batch).
template <int D, bool kGathered, bool kPacked, bool kDrops, bool kCaps>
__global__ void __launch_bounds__(kThreads) forward(Attention<BF16> a) {
  LOCKSTEP_DYNAMIC_SHARED(memory);
  constexpr int kTileElements = kTile * kStride<D>;
  BF16* const queries = reinterpret_cast<BF16*>(memory);
  BF16* const keys = queries + kTileElements;     // two tiles, used in turn
  BF16* const values = keys + 2 * kTileElements;  // likewise
  const Lane lane;
  const QueryTile tile(a.piece);
  const int64_t s0 = a.place(tile.piece, tile.first), queries_left = a.piece - tile.first;
  const int64_t h = blockIdx.y, b = blockIdx.z, kv = h / a.group;
  const Powers<kCaps> powers(a);
  const auto read_keys = [&](const KeyTiles<kGathered, kPacked, kTile>& at, int into) {
    const BF16* const from = a.kv + a.key(b, kv, at.piece, at.k0);
    read_tile<kTile, D>(keys + into, from, a.kv_row, a.piece - at.k0);
    read_tile<kTile, D>(values + into, from + a.values(), a.kv_row, a.piece - at.k0);
  };
  const RowDocuments<kPacked> documents(a, lane, b, s0, queries_left);
  const RowDropout<kDrops> dropout(a, lane, b, h, s0, queries_left);
  KeyTiles<kGathered, kPacked, kTile> at(a, tile);
  read_tile<kTile, D>(queries, a.qkv + a.query(b, h, s0), a.row, queries_left);
  if (at.more(a)) read_keys(at, 0);
  commit_copies();
  float out[D / 8][4] = {};
  float top[2] = {-infinity<float>(), -infinity<float>()}, total[2] = {0, 0};
  BF16* rows[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t r = lane.warp * 16 + lane.g + 8 * half;
    rows[half] = r < queries_left ? a.out + a.out_of(b, h, s0 + r) : nullptr;
    if (!kGathered || !a.adds || rows[half] == nullptr) continue;
    // The softmax goes on from a sum of exp(lse), of which one lane of the row has all.
    top[half] = a.lse.get<float>(a.row_of(b, h, s0 + r)) * kLog2E;
    total[half] = lane.t == 0 ? 1 : 0;
  }
  if (kGathered && a.adds) read_rows<D>(lane, rows[0], rows[1], 1, out);
  for (int buffer = 0; at.more(a); buffer ^= 1) {
    KeyTiles<kGathered, kPacked, kTile> next = at;
    next.next(a, tile);
    if (next.more(a)) read_keys(next, (buffer ^ 1) * kTileElements);
    commit_copies();
    wait_for_copies<1>();
    sync_block();
    float s[kTile / 8][4];
    row_products<kTile, D>(lane, queries + lane.warp * 16 * kStride<D>,
                           keys + buffer * kTileElements, s);
    // The last key that the tile's first query sees, and the last key that exists.
    const int seen = clamped(tile.first + (kGathered ? a.ahead(tile.piece, at.piece) : 0) - at.k0);
    const int present = clamped(a.piece - 1 - at.k0);
    const bool edge = smaller(seen, present) < kTile - 1;
    LOCKSTEP_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int last = smaller(seen + lane.warp * 16 + lane.g + 8 * half, present);
      const int hidden = documents.hidden(a, half, at.piece, at.k0);
      const int document_seen = documents.seen(a, half, at.piece, at.k0);
      float most = top[half];
      LOCKSTEP_UNROLL
      for (int n = 0; n < kTile / 8; ++n) {
        LOCKSTEP_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& x = s[n][2 * half + i];
          x = powers.end(powers.begin(x));
          const int key = n * 8 + 2 * lane.t + i;
          if (edge && key > last) x = -infinity<float>();
          if (kPacked && (key < hidden || key >= document_seen)) x = -infinity<float>();
          most = greater(most, x);
        }
      }
      most = row_max(most);
      // Without documents it is finite: every query sees the first key of the first piece, or has
      // seen others before. -inf - -inf is not a number.
      const float base = kPacked && most == -infinity<float>() ? 0 : most;
      const float correction = power_of_two(top[half] - base);
      float part = 0;
      LOCKSTEP_UNROLL
      for (int n = 0; n < kTile / 8; ++n) {  // NOLINT(modernize-loop-convert): unrolled
        LOCKSTEP_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& x = s[n][2 * half + i];
          x = power_of_two(x - base);
          part += x;
          if (!kDrops) continue;
          x *= dropout.factor(half, a.key_start(at.piece) + at.k0 + n * 8 + 2 * lane.t + i);
        }
      }
      total[half] = total[half] * correction + part;  // the lane's part; lanes are added at the end
      top[half] = most;
      LOCKSTEP_UNROLL
      for (int n = 0; n < D / 8; ++n) {
        out[n][2 * half] *= correction;
        out[n][2 * half + 1] *= correction;
      }
    }
    add_product<kTile, D>(lane, s, values + buffer * kTileElements, out);
    sync_block();  // the buffer has been read, so the round after the next may fill it
    at = next;
  }
  for (int half = 0; half < 2; ++half) {
    total[half] = row_sum(total[half]);
    const int64_t r = lane.warp * 16 + lane.g + 8 * half;
    if (r < queries_left && lane.t == 0) {
      a.lse.set(a.row_of(b, h, s0 + r), top[half] * kLn2 + logf(total[half]));
    }
  }
  write_rows<D>(lane, out, 1 / total[0], 1 / total[1], rows[0], rows[1]);
}

/// Walks the tiles of kQueries queries that see a tile of keys, over both pieces of queries.
template <bool kGathered, bool kPacked, int kQueries>
struct QueryTiles {
  int first[2], tiles[2];  // by piece of queries
  __device__ QueryTiles(const Attention<BF16>& a, int64_t key_piece, int64_t k0) {
    LOCKSTEP_UNROLL
    for (int p = 0; p < 2; ++p) {
      const int64_t from = kGathered && p < a.query_pieces
                               ? a.first_query(p, key_piece, k0, kQueries)
                               : k0 / kQueries * kQueries;
      const int64_t rows =
          (kGathered ? p < a.query_pieces : p == 0) ? greater<int64_t>(a.piece - from, 0) : 0;
      first[p] = static_cast<int>(from);
      tiles[p] = static_cast<int>((rows + kQueries - 1) / kQueries);
      if (kPacked) tiles[p] = in_documents(a, p, key_piece, k0);
    }
  }
  /// How many of a piece's tiles have a query whose document begins no later than these keys end.
  __device__ int in_documents(const Attention<BF16>& a, int query_piece, int64_t key_piece,
                              int64_t k0) const {
    int least = 0, most = tiles[query_piece];
    while (least < most) {
      const int middle = (least + most) / 2;
      const int64_t s = a.place(query_piece, first[query_piece] + middle * kQueries);
      if (a.document(blockIdx.z, s, key_piece) < k0 + kTile) {
        least = middle + 1;
      } else {
        most = middle;
      }
    }
    return least;
  }
  __device__ __forceinline__ int all() const { return kGathered ? tiles[0] + tiles[1] : tiles[0]; }
  __device__ __forceinline__ int piece(int tile) const { return kGathered && tile >= tiles[0]; }
  __device__ __forceinline__ int q0(int tile) const {
    return piece(tile) != 0 ? first[1] + (tile - tiles[0]) * kQueries : first[0] + tile * kQueries;
  }
};

/// There is a block for each (tile of keys, key head, batch); rows are keys and columns are
/// queries.
template <int D, int kQueries, bool kGathered, bool kPacked, bool kDrops, bool kCaps>
__global__ void __launch_bounds__(kThreads) backward_keys(Attention<BF16> a) {
  LOCKSTEP_DYNAMIC_SHARED(memory);
  constexpr int kTileElements = kTile * kStride<D>, kQueryElements = kQueries * kStride<D>;
  BF16* const keys = reinterpret_cast<BF16*>(memory);
  BF16* const values = keys + kTileElements;
  BF16* const queries = values + kTileElements;       // two tiles, used in turn
  BF16* const d_outs = queries + 2 * kQueryElements;  // likewise
  float* const lse = reinterpret_cast<float*>(d_outs + 2 * kQueryElements);
  float* const delta = lse + kQueries;
  int* const hidden = reinterpret_cast<int*>(delta + kQueries);  // keys before a query's document
  int* const document_seen = hidden + kQueries;                  // and those before its end
  auto* const dropout =
      reinterpret_cast<QueryDropout<float>*>(hidden + (kPacked ? 2 * kQueries : 0));  // by query
  const Lane lane;
  const int64_t key_tiles = (a.piece + kTile - 1) / kTile;
  const int64_t key_piece = kGathered ? blockIdx.x / key_tiles : 0;
  const int64_t k0 = (kGathered ? blockIdx.x % key_tiles : blockIdx.x) * kTile;
  const int64_t kv = blockIdx.y, b = blockIdx.z;
  const Powers<kCaps> powers(a);
  const QueryTiles<kGathered, kPacked, kQueries> tiles(a, key_piece, k0);
  const int rounds = tiles.all() * static_cast<int>(a.group);
  const auto read_queries = [&](int round, int into) {
    const int64_t h = kv * a.group + round / tiles.all();
    const int tile = round % tiles.all();
    const int64_t q0 = tiles.q0(tile), s0 = a.place(tiles.piece(tile), q0);
    read_tile<kQueries, D>(queries + into * kQueryElements, a.qkv + a.query(b, h, s0), a.row,
                           a.piece - q0);
    read_tile<kQueries, D>(d_outs + into * kQueryElements, a.d_o + a.out_of(b, h, s0), a.heads * D,
                           a.piece - q0);
  };
  const BF16* const from = a.kv + a.key(b, kv, key_piece, k0);
  read_tile<kTile, D>(keys, from, a.kv_row, a.piece - k0);
  read_tile<kTile, D>(values, from + a.values(), a.kv_row, a.piece - k0);
  if (rounds > 0) read_queries(0, 0);
  commit_copies();
  float d_key[D / 8][4] = {}, d_value[D / 8][4] = {};
  for (int round = 0; round < rounds; ++round) {
    const int buffer = round % 2 * kQueryElements;
    if (round + 1 < rounds) read_queries(round + 1, (round + 1) % 2);
    commit_copies();
    const int64_t h = kv * a.group + round / tiles.all();
    const int tile = round % tiles.all();
    const int64_t q0 = tiles.q0(tile), queries_left = a.piece - q0;
    if (threadIdx.x < kQueries) {
      const int64_t s =
          a.place(tiles.piece(tile), q0 + smaller<int64_t>(threadIdx.x, queries_left - 1));
      const int64_t line = a.row_of(b, h, s);
      lse[threadIdx.x] = a.lse.get<float>(line) * kLog2E;
      delta[threadIdx.x] = a.delta[line];
      if (kPacked) {
        hidden[threadIdx.x] = clamped(a.document(b, s, key_piece) - k0);
        document_seen[threadIdx.x] = clamped(a.document_end(b, s, key_piece) + 1 - k0);
      }
      if (kDrops) dropout[threadIdx.x] = a.dropout_of(b, h, s);
    }
    wait_for_copies<1>();
    sync_block();
    float p[kQueries / 8][4], ds[kQueries / 8][4];
    row_products<kQueries, D>(lane, keys + lane.warp * 16 * kStride<D>, queries + buffer, p);
    row_products<kQueries, D>(lane, values + lane.warp * 16 * kStride<D>, d_outs + buffer, ds);
    // The first query of the tile that sees its first key.
    const int from_query =
        clamped(k0 - q0 - (kGathered ? a.ahead(tiles.piece(tile), key_piece) : int64_t{0}));
    const int present = clamped(queries_left);
    const bool edge = from_query + kTile > 0 || present < kQueries;
    LOCKSTEP_UNROLL
    for (int n = 0; n < kQueries / 8; ++n) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + 2 * lane.t + i % 2;
        const float begun = powers.begin(p[n][i]);
        float weight = power_of_two(powers.end(begun) - lse[column]);
        const int row = lane.warp * 16 + lane.g + 8 * (i / 2);
        if (edge && (column < from_query + row || column >= present)) weight = 0;
        if (kPacked && (row < hidden[column] || row >= document_seen[column])) weight = 0;
        const float factor =
            kDrops ? dropout[column].factor(a.key_start(key_piece) + k0 + row) : 1.0F;
        p[n][i] = weight * factor;
        ds[n][i] = weight * (ds[n][i] * factor - delta[column]);
        if (kCaps) ds[n][i] *= 1 - begun * begun;
      }
    }
    add_product<kQueries, D>(lane, p, d_outs + buffer, d_value);
    add_product<kQueries, D>(lane, ds, queries + buffer, d_key);
    sync_block();
  }
  BF16* key_rows[2];
  BF16* value_rows[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t k = k0 + lane.warp * 16 + lane.g + 8 * half;
    key_rows[half] = k < a.piece ? a.d_kv + a.key(b, kv, key_piece, k) : nullptr;
    value_rows[half] = k < a.piece ? key_rows[half] + a.values() : nullptr;
  }
  write_rows<D>(lane, d_key, a.scale, a.scale, key_rows[0], key_rows[1]);
  write_rows<D>(lane, d_value, 1, 1, value_rows[0], value_rows[1]);
}

/// There is a block for each (tile of queries, head, batch).
template <int D, int kKeys, bool kGathered, bool kPacked, bool kDrops, bool kCaps>
__global__ void __launch_bounds__(kThreads) backward_queries(Attention<BF16> a) {
  LOCKSTEP_DYNAMIC_SHARED(memory);
  constexpr int kTileElements = kTile * kStride<D>, kKeyElements = kKeys * kStride<D>;
  BF16* const queries = reinterpret_cast<BF16*>(memory);
  BF16* const d_outs = queries + kTileElements;
  BF16* const keys = d_outs + kTileElements;     // two tiles, used in turn
  BF16* const values = keys + 2 * kKeyElements;  // likewise
  const Lane lane;
  const QueryTile tile(a.piece);
  const int64_t s0 = a.place(tile.piece, tile.first), queries_left = a.piece - tile.first;
  const int64_t h = blockIdx.y, b = blockIdx.z, kv = h / a.group;
  const Powers<kCaps> powers(a);
  const auto read_keys = [&](const KeyTiles<kGathered, kPacked, kKeys>& at, int into) {
    const BF16* const from = a.kv + a.key(b, kv, at.piece, at.k0);
    read_tile<kKeys, D>(keys + into, from, a.kv_row, a.piece - at.k0);
    read_tile<kKeys, D>(values + into, from + a.values(), a.kv_row, a.piece - at.k0);
  };
  const RowDocuments<kPacked> documents(a, lane, b, s0, queries_left);
  const RowDropout<kDrops> dropout(a, lane, b, h, s0, queries_left);
  KeyTiles<kGathered, kPacked, kKeys> at(a, tile);
  read_tile<kTile, D>(queries, a.qkv + a.query(b, h, s0), a.row, queries_left);
  read_tile<kTile, D>(d_outs, a.d_o + a.out_of(b, h, s0), a.heads * D, queries_left);
  if (at.more(a)) read_keys(at, 0);
  commit_copies();
  float lse[2], delta[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t r = smaller<int64_t>(lane.warp * 16 + lane.g + 8 * half, queries_left - 1);
    lse[half] = a.lse.get<float>(a.row_of(b, h, s0 + r)) * kLog2E;
    delta[half] = a.delta[a.row_of(b, h, s0 + r)];
  }
  BF16* rows[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t r = lane.warp * 16 + lane.g + 8 * half;
    rows[half] = r < queries_left ? a.out + a.query(b, h, s0 + r) : nullptr;
  }
  float d_query[D / 8][4] = {};
  if (kGathered && a.adds) read_rows<D>(lane, rows[0], rows[1], 1 / a.scale, d_query);
  for (int buffer = 0; at.more(a); buffer ^= 1) {
    KeyTiles<kGathered, kPacked, kKeys> next = at;
    next.next(a, tile);
    if (next.more(a)) read_keys(next, (buffer ^ 1) * kKeyElements);
    commit_copies();
    wait_for_copies<1>();
    sync_block();
    float p[kKeys / 8][4], ds[kKeys / 8][4];
    row_products<kKeys, D>(lane, queries + lane.warp * 16 * kStride<D>,
                           keys + buffer * kKeyElements, p);
    row_products<kKeys, D>(lane, d_outs + lane.warp * 16 * kStride<D>,
                           values + buffer * kKeyElements, ds);
    const int seen = clamped(tile.first + (kGathered ? a.ahead(tile.piece, at.piece) : 0) - at.k0);
    const int present = clamped(a.piece - 1 - at.k0);
    const bool edge = smaller(seen, present) < kKeys - 1;
    LOCKSTEP_UNROLL
    for (int n = 0; n < kKeys / 8; ++n) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float begun = powers.begin(p[n][i]);
        float weight = power_of_two(powers.end(begun) - lse[i / 2]);
        const int last = smaller(seen + lane.warp * 16 + lane.g + 8 * (i / 2), present);
        const int key = n * 8 + 2 * lane.t + i % 2;
        if (edge && key > last) weight = 0;
        if (kPacked && (key < documents.hidden(a, i / 2, at.piece, at.k0) ||
                        key >= documents.seen(a, i / 2, at.piece, at.k0))) {
          weight = 0;
        }
        const float factor =
            kDrops ? dropout.factor(i / 2, a.key_start(at.piece) + at.k0 + key) : 1.0F;
        ds[n][i] = weight * (ds[n][i] * factor - delta[i / 2]);
        if (kCaps) ds[n][i] *= 1 - begun * begun;
      }
    }
    add_product<kKeys, D>(lane, ds, keys + buffer * kKeyElements, d_query);
    sync_block();
    at = next;
  }
  write_rows<D>(lane, d_query, a.scale, a.scale, rows[0], rows[1]);
}

template <int D>
constexpr std::size_t tile_bytes(int rows) {
  return sizeof(BF16) * static_cast<std::size_t>(rows) * kStride<D>;
}

unsigned tiles(const Attention<BF16>& a, int64_t pieces) {
  return static_cast<unsigned>(pieces) * blocks_of(a.piece, kTile);
}

template <int D, bool kGathered, bool kPacked, bool kDrops, bool kCaps>
void launch_forward(const Attention<BF16>& a, Queue& queue) {
  queue.launch(
      {tiles(a, a.query_pieces), static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch)},
      {kThreads}, tile_bytes<D>(5 * kTile), forward<D, kGathered, kPacked, kDrops, kCaps>, a);
}

template <int D, bool kGathered, bool kPacked, bool kDrops, bool kCaps>
void launch_backward(const Attention<BF16>& a, Queue& queue) {
  constexpr int kOther = D == 64 ? 64 : 32;  // as many as there are registers for
  const auto batch = static_cast<unsigned>(a.batch);
  constexpr std::size_t of_query =
      (kPacked ? 4 : 2) * sizeof(float) + (kDrops ? sizeof(QueryDropout<float>) : 0);
  queue.launch({tiles(a, a.key_pieces), static_cast<unsigned>(a.kv_heads), batch}, {kThreads},
               tile_bytes<D>(2 * kTile + 4 * kOther) + kOther * of_query,
               backward_keys<D, kOther, kGathered, kPacked, kDrops, kCaps>, a);
  queue.launch({tiles(a, a.query_pieces), static_cast<unsigned>(a.heads), batch}, {kThreads},
               tile_bytes<D>(2 * kTile + 4 * kOther),
               backward_queries<D, kOther, kGathered, kPacked, kDrops, kCaps>, a);
}

/// Calls f(size of a head, whether keys are gathered or all seen, whether there are documents,
/// whether probabilities are dropped, whether scores are capped), all known at compile time.
template <class F>
void for_shape(const Attention<BF16>& a, const F& f) {
  const auto of_head = [&](auto gathered, auto packed, auto drops, auto caps) {
    a.head_dim == 64 ? f(Width<64>{}, gathered, packed, drops, caps)
                     : f(Width<128>{}, gathered, packed, drops, caps);
  };
  const auto of_scores = [&](auto gathered, auto packed, auto drops) {
    a.cap > 0 ? of_head(gathered, packed, drops, std::true_type{})
              : of_head(gathered, packed, drops, std::false_type{});
  };
  const auto with = [&](auto gathered, auto packed) {
    a.dropout == nullptr ? of_scores(gathered, packed, std::false_type{})
                         : of_scores(gathered, packed, std::true_type{});
  };
  const auto of_keys = [&](auto gathered) {
    a.documents == nullptr ? with(gathered, std::false_type{}) : with(gathered, std::true_type{});
  };
  const bool gathered = a.starts != nullptr || a.whole;
  gathered ? of_keys(std::true_type{}) : of_keys(std::false_type{});
}

bool aligned(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}

}  // namespace

bool on_tensor_cores(const KernelCall& call) {
  const int64_t D = call.kernel->dims[4];
  if (call.kernel->dtype != DType::BF16 || (D != 64 && D != 128)) return false;
  for (std::size_t i = 0; i < call.kernel->in.size(); ++i) {
    if (call.kernel->in[i].dtype != DType::I32 && !aligned(call.in[i])) return false;
  }
  return aligned(call.out[0]) && aligned(call.out[1]);
}

void attention_forward_mma(const KernelCall& call, Queue& queue) {
  const Attention<BF16> a = attention_of<BF16>(call);
  for_shape(a, [&](auto head, auto gathered, auto packed, auto drops, auto caps) {
    launch_forward<head.kValue, gathered.value, packed.value, drops.value, caps.value>(a, queue);
  });
}

void attention_backward_mma(const KernelCall& call, Queue& queue) {
  const Attention<BF16> a = attention_of<BF16>(call);
  for_shape(a, [&](auto head, auto gathered, auto packed, auto drops, auto caps) {
    launch_backward<head.kValue, gathered.value, packed.value, drops.value, caps.value>(a, queue);
  });
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
