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
#pragma once

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
  Share share_of_result() const { return {width() / parts(), 0, 0}; }
  /// Exchanges a rank's tokens of all heads for all tokens of its heads, and the reverse.
  TensorId to_heads(Part part, TensorId x, const Share& share, const std::string& name);
  TensorId to_tokens(Part part, TensorId x, const Share& share, const std::string& name);
  TensorId gather_keys(Part part, const std::string& name);
  /// Emits the kernel `regroup`. `skip` columns of a row come before those that are regrouped.
  void regroup(Part part, std::int64_t rows, std::int64_t parts, const Share& share, bool inverse,
               std::int64_t skip, TensorId x, TensorId y);
  void rope(Part part, TensorId qkv, bool inverse);
  bool exchanges() const { return parts() > 1 && !shape_.gathers_keys; }
  std::int64_t parts() const { return shape_.context_parallel; }
  std::vector<std::int64_t> dims() const;

  FunctionBuilder& f_;
  const ModelSpec& spec_;
  const LayerShape& shape_;
  std::int64_t heads_, kv_heads_;
  TensorId qkv_, result_, lse_;   // as the kernels see them
  TensorId keys_, all_, starts_;  // own keys and values, those of all ranks; only if gathered
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
