// Attention between a block's projections. Under context parallelism a rank holds its tokens of
// every sequence, N of N P, and ranks communicate around the kernels:
//
//   Ulysses (DeepSpeed-Ulysses, Jacobs et al. 2023): tokens are exchanged for heads
//     qkv [N, heads]                    --all-to-all-->  [N P, heads / P]
//     result [N, query heads]           <--all-to-all--  [N P, query heads / P]
//   keys gathered (Llama 3, Dubey et al. 2024), again in backward rather than kept
//     keys and values [N, key heads]    --all-gather-->      [N P, key heads]
//     their gradients                   <--reduce-scatter--
#pragma once

#include <string>

#include "core/model/function_builder.hpp"
#include "core/model/model.hpp"

namespace lockstep {

class Attention {
 public:
  Attention(FunctionBuilder& f, const ModelSpec& spec, const LayerShape& shape);
  /// Columns of this rank's query, key and value heads; columns of the result.
  std::int64_t qkv_width() const { return width() + keys_width(); }
  std::int64_t width() const { return heads_ * spec_.head_dim; }
  /// The result of `qkv`, which it overwrites; rows are own tokens.
  TensorId forward(TensorId qkv);
  /// Begins what backward needs of other ranks.
  void prefetch_backward();
  /// The gradient of qkv.
  TensorId backward(TensorId d_result);

 private:
  /// Columns of query, key and value heads that go to one of the ranks.
  struct Share {
    std::int64_t q, k, v;
    std::int64_t cols() const { return q + k + v; }
  };
  Share share_of_qkv() const;
  Share share_of_result() const { return {width() / parts(), 0, 0}; }
  /// Own tokens of all heads -> all tokens of own heads, and back.
  TensorId to_heads(Part part, TensorId x, const Share& share, const std::string& name);
  TensorId to_tokens(Part part, TensorId x, const Share& share, const std::string& name);
  TensorId gather_keys(Part part, const std::string& name);
  /// `skip`: columns of a row before those that are regrouped.
  void regroup(Part part, std::int64_t rows, std::int64_t parts, const Share& share, bool inverse,
               std::int64_t skip, TensorId x, TensorId y);
  void rope(Part part, TensorId qkv, bool inverse);
  bool exchanges() const { return parts() > 1 && !shape_.gathers_keys; }
  std::int64_t parts() const { return shape_.context_parallel; }
  std::int64_t keys_width() const { return 2 * kv_heads_ * spec_.head_dim; }
  std::vector<std::int64_t> dims() const;

  FunctionBuilder& f_;
  const ModelSpec& spec_;
  const LayerShape& shape_;
  std::int64_t heads_, kv_heads_;
  TensorId qkv_, result_, lse_;   // as the kernels see them
  TensorId keys_, all_, starts_;  // keys and values: own, of all ranks; none unless gathered
};

}  // namespace lockstep
