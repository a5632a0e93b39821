// Attention with grouped queries, causal or not, tile by tile (Dao, FlashAttention-2, 2023): scores
// exist only as one tile of shared memory. It works for any type and head size up to 256. Every sum
// has a fixed order: backward makes two passes, one for the keys' gradients and one for the
// queries', because a single pass would need atomic additions.
#include "backends/cuda/kernels/attention.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;                      // queries and keys per tile
constexpr int kRowThreads = kThreads / kTile;  // 8 threads share a row of a tile
constexpr int kScores = kTile / kRowThreads;   // 4 scores of a row for each thread
/// The largest head. float64 tiles of longer heads exceed the shared memory of a block.
template <class T>
constexpr int kMaxHeadDim = sizeof(T) == 8 ? 128 : 256;

/// Which elements of a tile a thread has: in row r, every kRowThreads-th column from c on.
struct Spot {
  int r, c;
  __device__ Spot()
      : r(static_cast<int>(threadIdx.x) / kRowThreads),
        c(static_cast<int>(threadIdx.x) % kRowThreads) {}
};

/// The sum over the threads that share a row; they are neighbours in a warp.
template <class A>
__device__ __forceinline__ A row_sum(A x) {
  for (int mask = kRowThreads / 2; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
  return x;
}
template <class A>
__device__ __forceinline__ A row_max(A x) {
  for (int mask = kRowThreads / 2; mask > 0; mask /= 2) x = greater(x, shuffle_xor(x, mask));
  return x;
}

/// Reads the first `present` rows of a matrix, whose rows lie `stride` apart, to shared memory
/// [kTile, dim + 1]; the other rows become zero.
template <class T>
__device__ void read_tile(const T* from, int64_t stride, int64_t present, int64_t dim, Acc<T>* to) {
  for (int64_t i = threadIdx.x; i < kTile * dim; i += kThreads) {
    const int64_t r = i / dim, d = i % dim;
    to[r * (dim + 1) + d] = r < present ? value(from[r * stride + d]) : Acc<T>(0);
  }
}

/// Where the tile of a block lies.
struct Place {
  int64_t piece, first;
  __device__ Place(int64_t tile, int64_t length) {
    const int64_t tiles = (length + kTile - 1) / kTile;
    piece = tile / tiles;
    first = tile % tiles * kTile;
  }
};

/// sums[j] = dot product of row r of `a` with rows c, c + kRowThreads, … of `b`.
template <class A>
__device__ __forceinline__ void dot_rows(const Spot& at, const A* a, const A* b, int64_t dim,
                                         A (&sums)[kScores]) {
  for (A& sum : sums) sum = 0;
  for (int64_t d = 0; d < dim; ++d) {
    const A x = a[at.r * (dim + 1) + d];
    for (int j = 0; j < kScores; ++j) {
      sums[j] += x * b[(at.c + j * kRowThreads) * (dim + 1) + d];
    }
  }
}

/// sums[i] += sum over the tile's rows j of weights[r][j] b[j][c + i kRowThreads].
template <int kD, class A>
__device__ __forceinline__ void add_rows(const Spot& at, const A* weights, const A* b, int64_t dim,
                                         A (&sums)[kD / kRowThreads]) {
  for (int j = 0; j < kTile; ++j) {
    const A w = weights[at.r * (kTile + 1) + j];
    LOCKSTEP_UNROLL
    for (int i = 0; i < kD / kRowThreads; ++i) {
      const int64_t d = at.c + i * kRowThreads;
      if (d < dim) sums[i] += w * b[j * (dim + 1) + d];
    }
  }
}

template <int kD, class T>
__device__ void write_rows(const Spot& at, const Acc<T> (&sums)[kD / kRowThreads], Acc<T> factor,
                           int64_t dim, T* to) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < kD / kRowThreads; ++i) {
    const int64_t d = at.c + i * kRowThreads;
    if (d < dim) put(to[d], sums[i] * factor);
  }
}

/// The reverse: sums = what write_rows() has written.
template <int kD, class T>
__device__ void read_rows(const Spot& at, const T* from, int64_t dim,
                          Acc<T> (&sums)[kD / kRowThreads]) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < kD / kRowThreads; ++i) {
    const int64_t d = at.c + i * kRowThreads;
    if (d < dim) sums[i] = value(from[d]);
  }
}

template <class A>
std::size_t shared_bytes(int64_t dim, int tiles, int score_tiles) {
  return static_cast<std::size_t>(tiles * kTile * (dim + 1) + score_tiles * kTile * (kTile + 1)) *
         sizeof(A);
}

/// How many keys of a piece come before the document of query q of its piece, which is s of all.
template <class T>
__device__ __forceinline__ int64_t hidden_keys(const Attention<T>& a, int64_t b, int64_t s,
                                               int64_t q, int64_t key_piece) {
  return a.documents == nullptr || q >= a.piece ? 0 : a.document(b, s, key_piece);
}

/// The last key of a piece that query q of its piece, which is s of all, may see: `last`, unless
/// its document ends before.
template <class T>
__device__ __forceinline__ int64_t last_key(const Attention<T>& a, int64_t b, int64_t s, int64_t q,
                                            int64_t key_piece, int64_t last) {
  if (a.documents == nullptr || q >= a.piece) return last;
  return smaller(last, a.document_end(b, s, key_piece));
}

/// A score of the softmax and its derivative by the scaled score. Whether scores are capped is
/// known at compile time, so that attention without a cap does not ask.
template <class A>
struct Score {
  A value, slope;
};
template <bool kCaps, class T>
__device__ __forceinline__ Score<Acc<T>> score_of(const Attention<T>& a, Acc<T> product) {
  if (!kCaps) return {product * a.scale, 1};
  const Acc<T> tangent = hyperbolic_tangent(product * a.scale / a.cap);
  return {a.cap * tangent, 1 - tangent * tangent};
}

/// There is a block for each (tile of queries, head, batch).
template <class T, int kD, bool kCaps>
__global__ void attention_forward(Attention<T> a) {
  using A = Acc<T>;
  LOCKSTEP_DYNAMIC_SHARED(memory);
  const int64_t dim = a.head_dim;
  A* const queries = reinterpret_cast<A*>(memory);
  A* const keys = queries + kTile * (dim + 1);  // then values
  A* const weights = keys + kTile * (dim + 1);
  const Spot at;
  const Place tile(blockIdx.x, a.piece);
  const int64_t q0 = tile.first, q = q0 + at.r, s = a.place(tile.piece, q);
  const int64_t h = blockIdx.y, b = blockIdx.z, kv = h / a.group;
  read_tile(a.qkv + a.query(b, h, s - at.r), a.row, a.piece - q0, dim, queries);
  const QueryDropout<A> dropout = a.dropout_of(b, h, q < a.piece ? s : 0);
  A sums[kD / kRowThreads] = {};
  A top = -infinity<A>(), total = 0;
  if (a.adds && q < a.piece) {  // the softmax goes on from a sum of exp(lse)
    read_rows<kD>(at, a.out + a.out_of(b, h, s), dim, sums);
    top = a.lse.template get<A>(a.row_of(b, h, s));
    total = 1;
  }
  for (int64_t piece = 0; piece < a.key_pieces; ++piece) {
    const int64_t last = last_key(a, b, s, q, piece, q + a.ahead(tile.piece, piece));
    const int64_t hidden = hidden_keys(a, b, s, q, piece);
    for (int64_t k0 = a.first_key(b, s - at.r, piece, kTile);
         k0 < a.keys_seen(tile.piece, q0 + kTile, piece); k0 += kTile) {
      const T* const from = a.kv + a.key(b, kv, piece, k0);
      sync_block();
      read_tile(from, a.kv_row, a.piece - k0, dim, keys);
      sync_block();
      A scores[kScores];
      dot_rows(at, queries, keys, dim, scores);
      A most = top;
      for (int j = 0; j < kScores; ++j) {
        const int64_t k = k0 + at.c + j * kRowThreads;
        const bool seen = k >= hidden && k <= last && k < a.piece;
        scores[j] = seen ? score_of<kCaps>(a, scores[j]).value : -infinity<A>();
        most = greater(most, scores[j]);
      }
      most = row_max(most);
      // A query has seen no key yet if its document begins later. -inf - -inf is not a number.
      const A base = most == -infinity<A>() ? A(0) : most;
      const A correction = exponential(top - base);
      A part = 0;
      for (int j = 0; j < kScores; ++j) {
        const A p = exponential(scores[j] - base);
        part += p;
        const int64_t k = k0 + at.c + j * kRowThreads;
        weights[at.r * (kTile + 1) + at.c + j * kRowThreads] =
            a.dropout == nullptr ? p : p * dropout.factor(a.key_start(piece) + k);
      }
      total = total * correction + row_sum(part);
      top = most;
      for (int i = 0; i < kD / kRowThreads; ++i) sums[i] *= correction;
      sync_block();
      read_tile(from + a.values(), a.kv_row, a.piece - k0, dim, keys);
      sync_block();
      add_rows<kD>(at, weights, keys, dim, sums);
    }
  }
  if (q >= a.piece) return;
  write_rows<kD>(at, sums, 1 / total, dim, a.out + a.out_of(b, h, s));
  if (at.c == 0) a.lse.set(a.row_of(b, h, s), top + logarithm(total));
}

/// Computes delta of every query, each by a warp.
template <class T>
__global__ void attention_delta(Attention<T> a) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.y;
  if (line >= a.batch * a.seq * a.heads) return;  // (b, s, h), as o is laid out
  Acc<T> sum = 0;
  for (int64_t d = threadIdx.x; d < a.head_dim; d += kWarp) {
    sum += value(a.d_o[line * a.head_dim + d]) * value(a.o[line * a.head_dim + d]);
  }
  sum = warp_sum(sum);
  if (threadIdx.x != 0) return;
  const int64_t h = line % a.heads, s = line / a.heads % a.seq, b = line / a.heads / a.seq;
  a.delta[a.row_of(b, h, s)] = sum;
}

/// Computes the weights p and the gradients ds of the scores of a thread's spots; they are zero
/// where the query at s does not see the key, which stands at `position` in the sequence.
template <bool kCaps, class T>
__device__ __forceinline__ void score_gradients(const Attention<T>& a, int64_t b, int64_t h,
                                                int64_t s, int64_t position, bool seen,
                                                Acc<T> product, Acc<T> d_weight, Acc<T>& p,
                                                Acc<T>& ds) {
  const int64_t line = a.row_of(b, h, seen ? s : 0);
  const Score<Acc<T>> score = score_of<kCaps>(a, product);
  p = seen ? exponential(score.value - a.lse.template get<Acc<T>>(line)) : Acc<T>(0);
  const bool drops = a.dropout != nullptr && seen;
  const Acc<T> factor = drops ? a.dropout_of(b, h, s).factor(position) : Acc<T>(1);
  ds = p * (factor * d_weight - a.delta[line]) * a.scale;
  if (kCaps) ds *= score.slope;
  p *= factor;
}

/// There is a block for each (tile of keys, key head, batch); the rows of its tiles are keys.
template <class T, int kD, bool kCaps>
__global__ void attention_backward_keys(Attention<T> a) {
  using A = Acc<T>;
  LOCKSTEP_DYNAMIC_SHARED(memory);
  const int64_t dim = a.head_dim;
  A* const keys = reinterpret_cast<A*>(memory);
  A* const values = keys + kTile * (dim + 1);
  A* const queries = values + kTile * (dim + 1);
  A* const d_outs = queries + kTile * (dim + 1);
  A* const weights = d_outs + kTile * (dim + 1);
  A* const d_scores = weights + kTile * (kTile + 1);
  const Spot at;
  const Place tile(blockIdx.x, a.piece);
  const int64_t k0 = tile.first, k = k0 + at.r;
  const int64_t kv = blockIdx.y, b = blockIdx.z;
  const T* const from = a.kv + a.key(b, kv, tile.piece, k0);
  read_tile(from, a.kv_row, a.piece - k0, dim, keys);
  read_tile(from + a.values(), a.kv_row, a.piece - k0, dim, values);
  A d_key[kD / kRowThreads] = {}, d_value[kD / kRowThreads] = {};
  for (int64_t h = kv * a.group; h < (kv + 1) * a.group; ++h) {
    for (int64_t piece = 0; piece < a.query_pieces; ++piece) {
      const int64_t ahead = a.ahead(piece, tile.piece);
      for (int64_t q0 = a.first_query(piece, tile.piece, k0, kTile); q0 < a.piece; q0 += kTile) {
        const int64_t s0 = a.place(piece, q0);
        if (a.first_key(b, s0, tile.piece, kTile) > k0) break;  // as all later queries, too
        sync_block();
        read_tile(a.qkv + a.query(b, h, s0), a.row, a.piece - q0, dim, queries);
        read_tile(a.d_o + a.out_of(b, h, s0), a.heads * dim, a.piece - q0, dim, d_outs);
        sync_block();
        A scores[kScores], d_weights[kScores];
        dot_rows(at, keys, queries, dim, scores);
        dot_rows(at, values, d_outs, dim, d_weights);
        for (int j = 0; j < kScores; ++j) {
          const int column = at.c + j * kRowThreads;
          const int64_t q = q0 + column, s = s0 + column;
          const bool seen = q < a.piece && k <= last_key(a, b, s, q, tile.piece, q + ahead) &&
                            k >= hidden_keys(a, b, s, q, tile.piece);
          A p, ds;
          score_gradients<kCaps>(a, b, h, s, a.key_start(tile.piece) + k, seen, scores[j],
                                 d_weights[j], p, ds);
          weights[at.r * (kTile + 1) + column] = p;
          d_scores[at.r * (kTile + 1) + column] = ds;
        }
        sync_block();
        add_rows<kD>(at, weights, d_outs, dim, d_value);
        add_rows<kD>(at, d_scores, queries, dim, d_key);
      }
    }
  }
  if (k >= a.piece) return;
  T* const to = a.d_kv + a.key(b, kv, tile.piece, k);
  write_rows<kD>(at, d_key, A(1), dim, to);
  write_rows<kD>(at, d_value, A(1), dim, to + a.values());
}

/// There is a block for each (tile of queries, head, batch).
template <class T, int kD, bool kCaps>
__global__ void attention_backward_queries(Attention<T> a) {
  using A = Acc<T>;
  LOCKSTEP_DYNAMIC_SHARED(memory);
  const int64_t dim = a.head_dim;
  A* const queries = reinterpret_cast<A*>(memory);
  A* const d_outs = queries + kTile * (dim + 1);
  A* const keys = d_outs + kTile * (dim + 1);
  A* const values = keys + kTile * (dim + 1);
  A* const d_scores = values + kTile * (dim + 1);
  const Spot at;
  const Place tile(blockIdx.x, a.piece);
  const int64_t q0 = tile.first, q = q0 + at.r, s = a.place(tile.piece, q);
  const int64_t h = blockIdx.y, b = blockIdx.z, kv = h / a.group;
  read_tile(a.qkv + a.query(b, h, s - at.r), a.row, a.piece - q0, dim, queries);
  read_tile(a.d_o + a.out_of(b, h, s - at.r), a.heads * dim, a.piece - q0, dim, d_outs);
  A d_query[kD / kRowThreads] = {};
  if (a.adds && q < a.piece) read_rows<kD>(at, a.out + a.query(b, h, s), dim, d_query);
  for (int64_t piece = 0; piece < a.key_pieces; ++piece) {
    const int64_t last = last_key(a, b, s, q, piece, q + a.ahead(tile.piece, piece));
    const int64_t hidden = hidden_keys(a, b, s, q, piece);
    for (int64_t k0 = a.first_key(b, s - at.r, piece, kTile);
         k0 < a.keys_seen(tile.piece, q0 + kTile, piece); k0 += kTile) {
      const T* const from = a.kv + a.key(b, kv, piece, k0);
      sync_block();
      read_tile(from, a.kv_row, a.piece - k0, dim, keys);
      read_tile(from + a.values(), a.kv_row, a.piece - k0, dim, values);
      sync_block();
      A scores[kScores], d_weights[kScores];
      dot_rows(at, queries, keys, dim, scores);
      dot_rows(at, d_outs, values, dim, d_weights);
      for (int j = 0; j < kScores; ++j) {
        const int column = at.c + j * kRowThreads;
        const bool seen =
            k0 + column >= hidden && k0 + column <= last && k0 + column < a.piece && q < a.piece;
        A p, ds;
        score_gradients<kCaps>(a, b, h, s, a.key_start(piece) + k0 + column, seen, scores[j],
                               d_weights[j], p, ds);
        d_scores[at.r * (kTile + 1) + column] = ds;
      }
      sync_block();
      add_rows<kD>(at, d_scores, keys, dim, d_query);
    }
  }
  if (q < a.piece) write_rows<kD>(at, d_query, A(1), dim, a.out + a.query(b, h, s));
}

template <class T>
unsigned query_tiles(const Attention<T>& a) {
  return static_cast<unsigned>(a.query_pieces) * blocks_of(a.piece, kTile);
}
template <class T>
unsigned key_tiles(const Attention<T>& a) {
  return static_cast<unsigned>(a.key_pieces) * blocks_of(a.piece, kTile);
}

/// Calls f with the smallest width of a register array that holds a head, and with whether scores
/// are capped, both known at compile time.
template <class T, class F>
void for_shape(const Attention<T>& a, const F& f) {
  const auto of_head = [&](auto caps) {
    if (a.head_dim <= 64) return f(Width<64>{}, caps);
    if (a.head_dim <= 128) return f(Width<128>{}, caps);
    if constexpr (kMaxHeadDim<T> == 256) f(Width<256>{}, caps);
  };
  a.cap > 0 ? of_head(std::true_type{}) : of_head(std::false_type{});
}

void run_forward(const KernelCall& call, Queue& queue) {
  if (on_tensor_cores(call)) return attention_forward_mma(call, queue);
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const Attention<T> a = attention_of<T>(call);
    for_shape(a, [&](auto d, auto caps) {
      queue.launch({query_tiles(a), static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch)},
                   {kThreads}, shared_bytes<Acc<T>>(a.head_dim, 2, 1),
                   attention_forward<T, d.kValue, caps.value>, a);
    });
  });
}

void run_backward(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const Attention<T> a = attention_of<T>(call);
    queue.launch({blocks_of(a.batch * a.seq * a.heads, kThreads / kWarp)},
                 {kWarp, kThreads / kWarp}, 0, attention_delta<T>, a);
    if (on_tensor_cores(call)) return attention_backward_mma(call, queue);
    const auto batch = static_cast<unsigned>(a.batch);
    for_shape(a, [&](auto d, auto caps) {
      queue.launch({key_tiles(a), static_cast<unsigned>(a.kv_heads), batch}, {kThreads},
                   shared_bytes<Acc<T>>(a.head_dim, 4, 2),
                   attention_backward_keys<T, d.kValue, caps.value>, a);
      queue.launch({query_tiles(a), static_cast<unsigned>(a.heads), batch}, {kThreads},
                   shared_bytes<Acc<T>>(a.head_dim, 4, 1),
                   attention_backward_queries<T, d.kValue, caps.value>, a);
    });
  });
}

bool accepts(const Kernel& kernel) {
  return kernel.dims[4] <= (kernel.dtype == DType::F64 ? kMaxHeadDim<double> : kMaxHeadDim<float>);
}

std::int64_t deltas(const Kernel& kernel) {
  const auto& d = kernel.dims;
  return d[0] * d[1] * d[2] * (kernel.dtype == DType::F64 ? 8 : 4);
}

}  // namespace

void add_attention(Registry& rows) {
  rows[KernelKind::AttentionForward] = {run_forward, nullptr, accepts};
  rows[KernelKind::AttentionBackward] = {run_backward, deltas, accepts};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
