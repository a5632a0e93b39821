// Attention: what lies between the projections of a block. Under context parallelism over P ranks,
// a rank holds N of the N P tokens of every sequence, and ranks communicate before and after the
// kernels:
//
//   Ulysses (DeepSpeed-Ulysses, Jacobs et al. 2023): tokens are exchanged for heads
//     qkv [N, heads]                    --all-to-all-->  [N P, heads / P]
//     result [N, query heads]           <--all-to-all--  [N P, query heads / P]
//   keys gathered (Llama 3, Dubey et al. 2024): keys and values are gathered again in backward,
//   instead of being kept
//     keys and values [N, key heads]    --all-gather-->      [N P, key heads]
//     their gradients                   <--reduce-scatter--
//   keys passed on (ring attention, Liu et al. 2023, in pieces from both ends of the sequence,
//   Brandon et al. 2023): in turn t a rank has the keys and values of the t-th rank before it,
//   while it gets those of the next turn; the softmax goes on from turn to turn (KernelKind::
//   AttentionForward). Backward passes them on again, and their gradients behind them, which come
//   home with the last turn
//     keys and values [N, key heads]    --rotate, P-1 times-->  [N, key heads]
//     their gradients                   --rotate, P-1 times-->
//   both (USP, Fang and Zhao 2024): neighbours exchange tokens for heads, and keys and values go
//   between the groups of such neighbours
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/model/function_builder.hpp"
#include "core/model/layer_parameters.hpp"
#include "core/model/model.hpp"

namespace lockstep {

class Attention {
 public:
  Attention(FunctionBuilder& f, const ModelSpec& spec, const LayerShape& shape);
  /// The columns of this rank's query, key and value heads, and those of the result.
  std::int64_t qkv_width() const { return width() + keys_width(); }
  std::int64_t width() const { return heads_ * spec_.head_dim; }
  std::int64_t keys_width() const { return 2 * kv_heads_ * spec_.head_dim; }
  /// Returns the result for `qkv`, which it overwrites. Rows are the rank's own tokens.
  TensorId forward(TensorId qkv);
  /// Begins the communication that the backward pass needs.
  void prefetch_backward();
  /// Returns the gradient of qkv.
  TensorId backward(TensorId d_result);

 private:
  /// How many columns of query, key and value heads go to each of the ranks.
  struct Share {
    std::int64_t q, k, v;
    std::int64_t cols() const { return q + k + v; }
  };
  Share share_of_qkv() const;
  Share share_of_result() const { return {own_width(), 0, 0}; }
  /// Exchanges a rank's tokens of all heads for all tokens of its heads, and the reverse.
  TensorId to_heads(Part part, TensorId x, const Share& share, const std::string& name);
  TensorId to_tokens(Part part, TensorId x, const Share& share, const std::string& name);
  TensorId gather_keys(Part part, const std::string& name);
  /// The keys and values that kernels attend to at a time.
  struct Keys {
    int turn;
    TensorId all, starts;  // invalid if keys and values are those in qkv_
  };
  void meet(Part part, const std::function<void(const Keys&)>& attend);
  /// Gives keys and values, or their gradients, to the next rank; returns those of the rank before.
  TensorId pass_on(Part part, TensorId x, const std::string& name);
  TensorId sum(TensorId x, TensorId y, const std::string& name);
  /// Emits the kernel `regroup`. `skip` columns of a row come before those that are regrouped.
  void regroup(Part part, std::int64_t rows, std::int64_t parts, const Share& share, bool inverse,
               std::int64_t skip, TensorId x, TensorId y);
  void rope(Part part, TensorId qkv, bool inverse);
  bool exchanges() const { return sharers() > 1; }
  bool divides_keys() const { return shape_.gathers_keys || shape_.passes_keys; }
  std::int64_t sharers() const { return shape_.head_ranks; }
  std::int64_t parts() const { return shape_.key_ranks(); }
  /// What the kernels see: rows of the tokens, and columns of the heads, that a rank attends with.
  std::int64_t rows() const { return sharers() * shape_.rows(); }
  std::int64_t own_width() const { return width() / sharers(); }
  std::int64_t own_keys_width() const { return keys_width() / sharers(); }
  /// The dimensions of the attention kernels; those of the `turn`-th keys that come by.
  std::vector<std::int64_t> dims(int turn = 0) const;
  std::vector<double> scalars() const {
    return {shape_.attention_dropout, spec_.attention_multiplier, spec_.attention_softcap};
  }
  std::int64_t scores(int turn) const;

  FunctionBuilder& f_;
  const ModelSpec& spec_;
  const LayerShape& shape_;
  std::int64_t heads_, kv_heads_;
  std::string heads_axis_, keys_axis_;  // of those that exchange heads, and between which keys go
  TensorId qkv_, result_, lse_;         // as the kernels see them
  TensorId keys_, all_,
      passing_;          // own keys and values, those of all ranks, those of the rank before
  std::int64_t window_;  // of a query; 0: it sees all earlier tokens
  TensorId documents_;   // invalid if every query sees the sequence from its begin
  TensorId dropout_;     // what the dropout of probabilities draws from; invalid if there is none
  std::vector<TensorId> starts_;  // the whole table, then that of each turn
};

/// The RMS norms of every head's queries and keys, between projection and attention, if the model
/// has them (ModelSpec::qk_norm); otherwise both functions return what they are given.
class HeadNorms {
 public:
  HeadNorms(FunctionBuilder& f, const ModelSpec& spec, const LayerShape& shape,
            const Attention& attention, const LayerTensors& p);
  TensorId forward(TensorId qkv);
  TensorId backward(TensorId d_qkv);

 private:
  FunctionBuilder& f_;
  double eps_;
  DType stats_type_;
  std::vector<std::int64_t> dims_;
  std::int64_t elements_;
  TensorId wq_, wk_, gq_, gk_;
  TensorId x_, stats_;
};

}  // namespace lockstep
