// Shapes shared by the attention kernels (docs of KernelKind::AttentionForward).
#pragma once

#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

template <class T>
struct Attention {
  int64_t batch, seq, heads, kv_heads, head_dim;
  int64_t row;    // elements from one position to the next in qkv
  int64_t group;  // query heads per key head
  Acc<T> scale;
  const T *qkv, *o, *d_o;
  T* out;  // o, or dqkv
  Ref lse;
  Acc<T>* delta;  // [batch, heads, seq]: sum of do * o

  __device__ int64_t query(int64_t b, int64_t h, int64_t s) const {
    return (b * seq + s) * row + h * head_dim;
  }
  __device__ int64_t key(int64_t b, int64_t kv, int64_t s) const { return query(b, heads + kv, s); }
  __device__ int64_t value_of(int64_t b, int64_t kv, int64_t s) const {
    return query(b, heads + kv_heads + kv, s);
  }
  __device__ int64_t out_of(int64_t b, int64_t h, int64_t s) const {
    return ((b * seq + s) * heads + h) * head_dim;
  }
  __device__ int64_t row_of(int64_t b, int64_t h, int64_t s) const {
    return (b * heads + h) * seq + s;
  }
};

template <class T>
Attention<T> attention_of(const KernelCall& call) {
  const auto& d = call.kernel->dims;
  const bool forward = call.kernel->kind == KernelKind::AttentionForward;
  return {d[0],
          d[1],
          d[2],
          d[3],
          d[4],
          (d[2] + 2 * d[3]) * d[4],
          d[2] / d[3],
          static_cast<Acc<T>>(1 / __builtin_sqrt(static_cast<double>(d[4]))),
          input<T>(call, 0),
          input<T>(call, 1),
          input<T>(call, 3),
          output<T>(call, 0),
          forward ? output_ref(call, 1) : input_ref(call, 2),
          reinterpret_cast<Acc<T>*>(call.scratch)};
}

/// On tensor cores; for bfloat16 heads of 64 or 128 elements that 16-byte reads reach.
bool on_tensor_cores(const KernelCall& call);
void attention_forward_mma(const KernelCall& call, Queue& queue);
/// Requires `delta` to be computed.
void attention_backward_mma(const KernelCall& call, Queue& queue);

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
