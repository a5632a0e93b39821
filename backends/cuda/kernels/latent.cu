// Latent attention: its projections laid out as the attention kernels read them, and back; one
// thread per pack of elements.
#include <numeric>

#include "backends/cuda/kernels/map.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

/// Index i counts elements of qkv.
template <class T>
struct JoinLatent {
  const T *q, *kv, *shared;
  T* qkv;
  int64_t heads, nope, rope, value;
  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t head = nope + rope, pad = head - value;
    const int64_t row = i / head / (3 * heads), place = i / head % (3 * heads), col = i % head;
    const int64_t own = row * heads + place % heads;
    const T* from = nullptr;  // zeros
    if (place < heads) {
      from = q + own * head + col;
    } else if (place < 2 * heads) {
      from = col < nope ? kv + own * (nope + value) + col : shared + row * rope + col - nope;
    } else if (col >= pad) {
      from = kv + own * (nope + value) + nope + col - pad;
    }
    Values<Acc<T>, N> v;
    if (from != nullptr) {
      v = load<N>(from);
    } else {
      for (int j = 0; j < N; ++j) v[j] = 0;
    }
    store<N>(qkv + i, v);
  }
};

/// Index i counts, row by row, the elements of dq, of dkv and of the gradient of what heads share,
/// which is summed in the order of heads.
template <class T>
struct PartLatent {
  const T* dqkv;
  T *dq, *dkv, *shared;
  int64_t heads, nope, rope, value;
  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t head = nope + rope, own = nope + value;
    const int64_t cols = heads * (head + own) + rope, row = i / cols, col = i % cols;
    const T* const from = dqkv + row * 3 * heads * head;
    if (col < heads * head) return store<N>(dq + row * heads * head + col, load<N>(from + col));
    const T* const keys = from + heads * head;
    if (const int64_t at = col - heads * head; at < heads * own) {
      const int64_t h = at / own, c = at % own;
      const T* const value_head = keys + (heads + h) * head + head - value;
      store<N>(dkv + row * heads * own + at,
               load<N>(c < nope ? keys + h * head + c : value_head + c - nope));
      return;
    }
    const int64_t c = col - heads * (head + own);
    auto sum = load<N>(keys + nope + c);
    for (int64_t h = 1; h < heads; ++h) {
      const auto more = load<N>(keys + h * head + nope + c);
      for (int j = 0; j < N; ++j) sum[j] += more[j];
    }
    store<N>(shared + row * rope + c, sum);
  }
};

/// How many elements lie together everywhere, so that packs do not cross a border.
int64_t unit_of(const Kernel& kernel) {
  const auto& d = kernel.dims;
  return std::gcd(std::gcd(d[2], d[3]), d[4]);
}

void join_latent(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const auto& d = call.kernel->dims;
    const JoinLatent<T> f{input<T>(call, 0),
                          input<T>(call, 1),
                          input<T>(call, 2),
                          output<T>(call, 0),
                          d[1],
                          d[2],
                          d[3],
                          d[4]};
    for_width<T>(unit_of(*call.kernel), {f.q, f.kv, f.shared, f.qkv},
                 [&](auto w) { launch_map<w.kValue>(queue, f, d[0] * 3 * d[1] * (d[2] + d[3])); });
  });
}

void part_latent(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const auto& d = call.kernel->dims;
    const PartLatent<T> f{input<T>(call, 0),
                          output<T>(call, 0),
                          output<T>(call, 1),
                          output<T>(call, 2),
                          d[1],
                          d[2],
                          d[3],
                          d[4]};
    for_width<T>(unit_of(*call.kernel), {f.dqkv, f.dq, f.dkv, f.shared}, [&](auto w) {
      launch_map<w.kValue>(queue, f, d[0] * (d[1] * (2 * d[2] + d[3] + d[4]) + d[3]));
    });
  });
}

}  // namespace

void add_latent(Registry& rows) {
  rows[KernelKind::JoinLatent] = {join_latent};
  rows[KernelKind::PartLatent] = {part_latent};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
