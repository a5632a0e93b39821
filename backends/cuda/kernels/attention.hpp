// Attention: the shapes that the attention kernels share (core/ir/kernels/attention.cpp).
#pragma once

#include "backends/cuda/kernels/registry.hpp"
#include "core/base/dropout.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

/// The dropout of one query's probabilities in one head.
template <class A>
struct QueryDropout {
  DropoutRow row;
  std::uint32_t below;  // 0: nothing is dropped
  A kept;
  /// What the probability is multiplied by of the key that stands there in the sequence.
  __device__ __forceinline__ A factor(int64_t position) const {
    return row.bits(static_cast<std::uint32_t>(position)) < below ? A(0) : kept;
  }
};

/// Queries and keys come in pieces that are contiguous in the sequence: one piece of each, or, with
/// keys gathered from several ranks, two of queries, and two of keys for each rank. The place of a
/// query or key is counted within its piece.
template <class T>
struct Attention {
  int64_t batch, seq, heads, kv_heads, head_dim;
  int64_t row;     // elements from one position to the next in qkv
  int64_t kv_row;  // elements from one position to the next where keys and values lie
  int64_t group;   // query heads per key head
  int64_t query_pieces, key_pieces, piece;
  const std::int32_t* starts;  // where the pieces of queries, then of keys, start; null: all at 0
  const std::int32_t* documents;  // where those of the own tokens begin; null: sequences are whole
  const std::int32_t* dropout;  // numbers of heads, then keys of queries; null: nothing is dropped
  std::uint32_t below;          // random bits that drop a probability
  Acc<T> kept;                  // what one is multiplied by that is kept
  int layer;                    // of the op, for dropout
  bool adds;                    // to what other keys gave, which may be all that a query sees
  bool whole;                   // queries see all keys, later ones, too
  Acc<T> scale;
  Acc<T> cap;  // of scaled scores; 0: none
  const T *qkv, *kv, *o, *d_o;
  T *out, *d_kv;  // out is o, or dqkv; the gradients of keys and values go to d_kv
  Ref lse;
  Acc<T>* delta;  // [batch, heads, seq]: sum of do * o

  /// The place of query q of a piece among all own tokens.
  __device__ int64_t place(int64_t query_piece, int64_t q) const { return query_piece * piece + q; }
  __device__ int64_t query(int64_t b, int64_t h, int64_t s) const {
    return (b * seq + s) * row + h * head_dim;
  }
  /// The element of kv and d_kv at which a key begins; its value lies values() further.
  __device__ int64_t key(int64_t b, int64_t head, int64_t key_piece, int64_t k) const {
    return ((key_piece / 2 * batch + b) * seq + key_piece % 2 * piece + k) * kv_row +
           head * head_dim;
  }
  __device__ int64_t values() const { return kv_heads * head_dim; }
  __device__ int64_t out_of(int64_t b, int64_t h, int64_t s) const {
    return ((b * seq + s) * heads + h) * head_dim;
  }
  __device__ int64_t row_of(int64_t b, int64_t h, int64_t s) const {
    return (b * heads + h) * seq + s;
  }
  /// Where in the sequence the first key of a piece stands.
  __device__ int64_t key_start(int64_t key_piece) const {
    return starts == nullptr ? 0 : starts[2 + key_piece];
  }
  /// The dropout of query s of all own tokens.
  __device__ QueryDropout<Acc<T>> dropout_of(int64_t b, int64_t h, int64_t s) const {
    const std::int32_t key = dropout == nullptr ? kNothingDropped : dropout[heads + b * seq + s];
    if (key < 0) return {DropoutRow(0, 0, 0), 0, 1};
    return {DropoutRow::of_query(key, layer, dropout[h]), below, kept};
  }
  /// Query q of one piece sees key k of the other if k <= q + ahead().
  __device__ int64_t ahead(int64_t query_piece, int64_t key_piece) const {
    if (whole) return piece;  // of a piece's keys none lies further ahead
    return starts == nullptr ? 0 : starts[query_piece] - starts[2 + key_piece];
  }
  /// The first key of a piece that is in the document of query s of all own tokens, or later; it
  /// may lie beyond the piece's ends. It does not fall from one query of a piece to the next.
  __device__ int64_t document(int64_t b, int64_t s, int64_t key_piece) const {
    return documents[b * seq + s] - key_start(key_piece);
  }
  /// The last key of a piece that is in the document of query s, or earlier, if queries see later
  /// keys, too. It does not fall from one query of a piece to the next.
  __device__ int64_t document_end(int64_t b, int64_t s, int64_t key_piece) const {
    if (!whole) return piece;
    return documents[(batch + b) * seq + s] - 1 - key_start(key_piece);
  }
  /// The first tile, of `tile` keys, that query s or a later one of its piece sees.
  __device__ int64_t first_key(int64_t b, int64_t s, int64_t key_piece, int64_t tile) const {
    if (documents == nullptr) return 0;
    return greater<int64_t>(document(b, s, key_piece), 0) / tile * tile;
  }
  /// How many keys at the front of a piece are seen by at least one of the queries below `end`.
  __device__ int64_t keys_seen(int64_t query_piece, int64_t end, int64_t key_piece) const {
    return smaller(piece, end + ahead(query_piece, key_piece));
  }
  /// The first query of a piece, in steps of `tile`, that may see key k.
  __device__ int64_t first_query(int64_t query_piece, int64_t key_piece, int64_t k,
                                 int64_t tile) const {
    return greater<int64_t>(k - ahead(query_piece, key_piece), 0) / tile * tile;
  }
};

template <class T>
Attention<T> attention_of(const KernelCall& call) {
  const auto& d = call.kernel->dims;
  const bool forward = call.kernel->kind == KernelKind::AttentionForward;
  const int gathered = forward ? 1 : 4;  // keys and values, then where pieces start
  const bool own = d[5] == 0;
  const double share = call.kernel->scalars[0], scale = call.kernel->scalars[1];
  const int64_t row = (d[2] + 2 * d[3]) * d[4], behind_queries = d[2] * d[4];
  T* const d_kv = forward ? nullptr
                  : own   ? output<T>(call, 0) + behind_queries
                          : output<T>(call, 1);
  return {d[0],
          d[1],
          d[2],
          d[3],
          d[4],
          row,
          own ? row : 2 * d[3] * d[4],
          d[2] / d[3],
          own ? 1 : 2,
          own ? 1 : 2 * d[5],
          own ? d[1] : d[1] / 2,
          own ? nullptr : input<std::int32_t>(call, gathered + 1),
          call.kernel->dims[6] == 0 ? nullptr : input<std::int32_t>(call, gathered + 2),
          share == 0 ? nullptr : input<std::int32_t>(call, gathered + 3),
          dropped_below(share),
          static_cast<Acc<T>>(1 / (1 - share)),
          call.context.layer,
          call.kernel->accumulate,
          call.kernel->dims[7] != 0,
          static_cast<Acc<T>>(scale > 0 ? scale : 1 / __builtin_sqrt(static_cast<double>(d[4]))),
          static_cast<Acc<T>>(call.kernel->scalars[2]),
          input<T>(call, 0),
          own ? input<T>(call, 0) + behind_queries : input<T>(call, gathered),
          input<T>(call, 1),
          input<T>(call, 3),
          output<T>(call, 0),
          d_kv,
          forward ? output_ref(call, 1) : input_ref(call, 2),
          reinterpret_cast<Acc<T>*>(call.scratch)};
}

/// Whether the two functions below, which use tensor cores, can run the kernel: it needs bfloat16
/// heads of 64 or 128 elements, aligned for reads of 16 bytes.
bool on_tensor_cores(const KernelCall& call);
void attention_forward_mma(const KernelCall& call, Queue& queue);
/// Requires that `delta` has been computed.
void attention_backward_mma(const KernelCall& call, Queue& queue);

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
