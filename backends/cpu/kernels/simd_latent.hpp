// Latent attention: its projections laid out as the attention kernels read them, and back.
// Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_math.hpp"

namespace lockstep::cpu {
namespace {

/// Where the parts of a row of join_latent lie.
struct Latent {
  explicit Latent(const KernelArgs& args)
      : rows(args.dims[0]),
        heads(args.dims[1]),
        nope(args.dims[2]),
        rope(args.dims[3]),
        value(args.dims[4]),
        head(nope + rope),
        pad(head - value) {}
  /// Of a head of keys, and of one of values, in qkv; of a head in kv.
  int64_t key(int64_t row, int64_t h) const { return (row * 3 * heads + heads + h) * head; }
  int64_t padded(int64_t row, int64_t h) const { return key(row, heads + h); }
  int64_t own(int64_t row, int64_t h) const { return (row * heads + h) * (nope + value); }
  int64_t rows, heads, nope, rope, value, head, pad;
};

template <class T>
void copy(T* to, const T* from, int64_t n) {
  __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
}

template <class T>
void run_join_latent(const KernelArgs& args) {
  const Latent l(args);
  const T* const q = input<T>(args, 0);
  const T* const kv = input<T>(args, 1);
  const T* const shared = input<T>(args, 2);
  T* const qkv = output<T>(args, 0);
  parallel(*args.team, l.rows, row_grain(3 * l.heads * l.head), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      copy(qkv + row * 3 * l.heads * l.head, q + row * l.heads * l.head, l.heads * l.head);
      for (int64_t h = 0; h < l.heads; ++h) {
        const T* const from = kv + l.own(row, h);
        T* const key = qkv + l.key(row, h);
        T* const values = qkv + l.padded(row, h);
        copy(key, from, l.nope);
        copy(key + l.nope, shared + row * l.rope, l.rope);
        __builtin_memset(values, 0, static_cast<std::size_t>(l.pad) * sizeof(T));
        copy(values + l.pad, from + l.nope, l.value);
      }
    }
  });
}

/// The gradient of what all heads share is summed in the order of heads.
template <class T>
void run_part_latent(const KernelArgs& args) {
  const Latent l(args);
  const T* const dqkv = input<T>(args, 0);
  T* const dq = output<T>(args, 0);
  T* const dkv = output<T>(args, 1);
  T* const shared = output<T>(args, 2);
  parallel(*args.team, l.rows, row_grain(3 * l.heads * l.head), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      copy(dq + row * l.heads * l.head, dqkv + row * 3 * l.heads * l.head, l.heads * l.head);
      for (int64_t h = 0; h < l.heads; ++h) {
        T* const to = dkv + l.own(row, h);
        copy(to, dqkv + l.key(row, h), l.nope);
        copy(to + l.nope, dqkv + l.padded(row, h) + l.pad, l.value);
      }
      for_vectors<T>(0, l.rope, [&](int64_t i, auto n) {
        Vec<T> sum{};
        for (int64_t h = 0; h < l.heads; ++h) sum += load(dqkv + l.key(row, h) + l.nope + i, n);
        store(shared + row * l.rope + i, sum, n);
      });
    }
  });
}

}  // namespace
}  // namespace lockstep::cpu
