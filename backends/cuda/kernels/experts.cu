// Mixtures of experts: products by expert, routing of tokens to places, and combination of the
// experts' results.
#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/kernels/gemm.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;

// ---------------------------------------------------------------- products

Ref ref(std::byte* at, const Operand& operand, int64_t element) {
  if (at == nullptr) return {};
  return {at + element * size_of(operand.dtype), operand.dtype};
}

/// Computes the products in batches over the experts; or, if there are fewer experts than ranks
/// whose tokens they have, in batches over those ranks.
void run_grouped_gemm(const KernelCall& call, Queue& queue) {
  const Kernel& kernel = *call.kernel;
  const auto& d = kernel.dims;
  const int64_t groups = d[0], chunks = d[1], m = d[2], n = d[3], k = d[4];
  const bool by_group = groups >= chunks;
  const Batch batch = by_group ? Batch{groups, m * k, n * k, n, m * n}
                               : Batch{chunks, groups * m * k, 0, 0, groups * m * n};
  for (int64_t i = 0; i < (by_group ? chunks : groups); ++i) {
    const int64_t part = by_group ? i * groups : i, g = by_group ? 0 : i;
    multiply({m, n, k, false, d[5] != 0, kernel.tf32}, kernel.dtype,
             ref(call.in[0], kernel.in[0], part * m * k).at,
             ref(call.in[1], kernel.in[1], g * n * k).at,
             call.in[2] != nullptr ? ref(call.in[2], kernel.in[2], g * n) : Ref{}, {},
             ref(call.out[0], kernel.out[0], part * m * n), kernel.accumulate, queue, batch);
  }
}

/// Chunks are added in order, each to the sum of those before.
void run_grouped_gemm_weight(const KernelCall& call, Queue& queue) {
  const Kernel& kernel = *call.kernel;
  const auto& d = kernel.dims;
  const int64_t groups = d[0], chunks = d[1], rows = d[2], m = d[3], n = d[4];
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const bool accumulate = kernel.accumulate || chunk > 0;
    const Ref dy = ref(call.in[0], kernel.in[0], chunk * groups * rows * m);
    multiply({m, n, rows, true, false, kernel.tf32}, kernel.dtype, dy.at,
             ref(call.in[1], kernel.in[1], chunk * groups * rows * n).at, {}, {},
             ref(call.out[0], kernel.out[0], 0), accumulate, queue,
             {groups, rows * m, rows * n, 0, m * n});
    if (call.out[1] == nullptr) continue;
    Kernel sum;
    sum.kind = KernelKind::ColumnSum;
    sum.dtype = kernel.dtype;
    sum.accumulate = accumulate;
    sum.dims = {rows, m};
    sum.in = {{0, kernel.dtype, 0}};
    sum.out = {{1, kernel.out[1].dtype, 0}};
    for (int64_t g = 0; g < groups; ++g) {
      registry()[KernelKind::ColumnSum].launch({&sum,
                                                {behind(dy, g * rows * m).at},
                                                {ref(call.out[1], kernel.out[1], g * m).at},
                                                call.scratch,
                                                {}},
                                               queue);
    }
  }
}

// ---------------------------------------------------------------- routing

/// Each thread takes a token: it computes the probabilities, chooses the experts of the largest
/// sums with the biases, if there are any (of equals the first), and computes their gates.
template <class A>
__global__ void choose(int64_t tokens, int64_t experts, int64_t choices, bool sigmoids, Ref logits,
                       Ref bias, Ref probs, Ref gates, std::int32_t* chosen) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (t >= tokens) return;
  A largest = -infinity<A>(), sum = 0;
  for (int64_t e = 0; e < experts; ++e) {
    largest = greater(largest, logits.get<A>(t * experts + e));
  }
  for (int64_t e = 0; e < experts; ++e)
    sum += exponential(logits.get<A>(t * experts + e) - largest);
  const auto prob = [&](int64_t e) {
    const A x = logits.get<A>(t * experts + e);
    return sigmoids ? A(1) / (A(1) + exponential(-x)) : exponential(x - largest) / sum;
  };
  A total = 0;
  for (int64_t c = 0; c < choices; ++c) {
    int64_t best = -1;
    A most = 0;
    for (int64_t e = 0; e < experts; ++e) {
      bool taken = false;
      for (int64_t before = 0; before < c; ++before) taken |= chosen[t * choices + before] == e;
      const A score = prob(e) + (bias ? bias.get<A>(e) : A(0));
      if (taken || (best >= 0 && !(score > most))) continue;
      best = e;
      most = score;
    }
    chosen[t * choices + c] = static_cast<std::int32_t>(best);
    total += prob(best);
  }
  for (int64_t c = 0; c < choices; ++c) {
    const A own = prob(chosen[t * choices + c]);
    gates.set(t * choices + c, choices > 1 ? own / total : own);
  }
  for (int64_t e = 0; e < experts; ++e) probs.set(t * experts + e, prob(e));
}

/// Each block takes an expert and gives its places to first choices, in the order of tokens, then
/// to second choices, and so on. Places begin where `begins` says and have no end; or, if it is
/// null, at expert × capacity.
__global__ void give_places(int64_t tokens, int64_t choices, int64_t capacity,
                            const std::int32_t* chosen, const std::int32_t* begins,
                            std::int32_t* slots, std::int32_t* sources) {
  __shared__ std::int32_t before[kThreads];  // how many threads up to this one want the expert
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  const int64_t begin = begins != nullptr ? begins[expert] : expert * capacity;
  const int own = static_cast<int>(threadIdx.x);
  int64_t taken = 0;
  for (int64_t c = 0; c < choices; ++c) {
    for (int64_t base = 0; base < tokens; base += kThreads) {
      const int64_t t = base + own;
      const bool wants = t < tokens && chosen[t * choices + c] == expert;
      sync_block();
      before[own] = wants ? 1 : 0;
      sync_block();
      for (int step = 1; step < kThreads; step *= 2) {
        const std::int32_t more = own >= step ? before[own - step] : 0;
        sync_block();
        before[own] += more;
        sync_block();
      }
      if (wants) {
        const int64_t place = taken + before[own] - 1;
        const bool fits = begins != nullptr || place < capacity;
        slots[t * choices + c] = fits ? static_cast<std::int32_t>(begin + place) : -1 - expert;
        if (fits) sources[begin + place] = static_cast<std::int32_t>(t);
      }
      taken += before[kThreads - 1];
    }
  }
  for (int64_t place = taken + own; place < capacity; place += kThreads) {
    sources[expert * capacity + place] = -1;
  }
}

/// One thread. Says where the places of each expert begin that stand one behind the other.
__global__ void begin_places(int64_t experts, const std::int32_t* counts, std::int32_t* begins) {
  std::int32_t before = 0;
  for (int64_t e = 0; e < experts; ++e) {
    begins[e] = before;
    before += counts[e];
  }
}

/// Each block takes an expert and counts its choices.
__global__ void count_chosen(int64_t n, const std::int32_t* chosen, std::int32_t* counts) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    if (chosen[i] == static_cast<std::int32_t>(blockIdx.x)) sum += 1;
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) counts[blockIdx.x] = static_cast<std::int32_t>(sum);
}

/// What says which expert a choice is of: its slot is a place among `capacity` of each expert, or
/// -1
/// - expert if that was full; without a capacity, a place behind those of the experts before, of
/// which `counts` says how many there are.
struct Slots {
  const std::int32_t* at;
  int64_t capacity, experts;
  const std::int32_t* counts;
  __device__ __forceinline__ int64_t expert_of(std::int32_t slot) const {
    int64_t e = 0;
    if (capacity > 0) {
      e = slot < 0 ? -1 - static_cast<int64_t>(slot) : slot / capacity;
    } else {
      for (int64_t end = counts[0]; slot >= end && e < experts - 1;) end += counts[++e];
    }
    return e < experts ? e : experts - 1;
  }
};

/// The number of choices of the block's expert, on its first thread.
__device__ __forceinline__ double count_of_block(int64_t n, const Slots& slots) {
  if (slots.counts != nullptr) return slots.counts[blockIdx.x];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    if (slots.expert_of(slots.at[i]) == blockIdx.x) sum += 1;
  }
  return block_sum<kThreads>(sum);
}

/// Each block takes an expert and computes factor × the number of choices of it.
__global__ void count_choices(int64_t n, Slots slots, double factor, Ref loss_scale,
                              double* loads) {
  const double sum = count_of_block(n, slots);
  if (threadIdx.x != 0) return;
  loads[blockIdx.x] = (loss_scale ? factor * loss_scale.get<double>(0) : factor) * sum;
}

/// The gradient of sum(weights × p / sum(p)) of a token whose probabilities begin at `first`. Of a
/// softmax, whose sum is 1, what all elements have in common is left out: it has no slope.
template <class A>
struct Balancing {
  Ref probs;
  int64_t first;
  A along = 0, sum = 1;
  template <class Weight>
  __device__ Balancing(int64_t experts, bool sigmoids, Ref p, int64_t at, const Weight& weight)
      : probs(p), first(at) {
    if (!sigmoids) return;
    sum = 0;
    for (int64_t e = 0; e < experts; ++e) {
      sum += probs.get<A>(first + e);
      along += weight(e) * probs.get<A>(first + e);
    }
    along /= sum;
  }
  __device__ A operator()(A weight) const { return (weight - along) / sum; }
};

/// What gradients of a token's probabilities are of its logits: calls put(e, gradient) for each.
template <class A, class Gradient, class Put>
__device__ __forceinline__ void through_probabilities(int64_t experts, bool sigmoids, Ref probs,
                                                      int64_t first, const Gradient& gradient,
                                                      const Put& put) {
  A mean = 0;
  for (int64_t e = 0; !sigmoids && e < experts; ++e) {
    mean += probs.get<A>(first + e) * gradient(e);
  }
  for (int64_t e = 0; e < experts; ++e) {
    const A p = probs.get<A>(first + e);
    put(e, p * (sigmoids ? gradient(e) * (A(1) - p) : gradient(e) - mean));
  }
}

/// Each thread takes a token. The gradient goes through the probabilities and, with several
/// choices, through their division by the sum.
template <class A>
__global__ void route_backward(int64_t tokens, int64_t experts, int64_t choices, bool sigmoids,
                               Ref dgates, Ref probs, Slots slots, const double* loads,
                               Ref dlogits) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (t >= tokens) return;
  const std::int32_t* const slot = slots.at + t * choices;
  A sum = 0, along = 0;
  for (int64_t c = 0; c < choices; ++c) {
    const A p = probs.get<A>(t * experts + slots.expert_of(slot[c]));
    sum += p;
    along += dgates.get<A>(t * choices + c) * p;
  }
  const auto load = [&](int64_t e) { return static_cast<A>(loads[e]); };
  const Balancing<A> balancing(experts, sigmoids, probs, t * experts, load);
  const auto gradient = [&](int64_t e) {
    A d = balancing(load(e));
    for (int64_t c = 0; c < choices; ++c) {
      if (slots.expert_of(slot[c]) != e) continue;
      const A own = dgates.get<A>(t * choices + c);
      d += choices > 1 ? (own - along / sum) / sum : own;
    }
    return d;
  };
  through_probabilities<A>(experts, sigmoids, probs, t * experts, gradient,
                           [&](int64_t e, A d) { dlogits.set(t * experts + e, d); });
}

/// A block per expert: the choices that are its.
__global__ void route_load(int64_t n, Slots slots, bool accumulate, Ref load) {
  const double sum = count_of_block(n, slots);
  const auto expert = int64_t{blockIdx.x};
  if (threadIdx.x == 0) load.set(expert, accumulate ? load.get<double>(expert) + sum : sum);
}

/// One block. Moves the biases of a router against the load of its experts, by the sign alone.
template <class A>
__global__ void router_bias(int64_t experts, double rate, Ref load, Ref coefficient, Ref bias,
                            Ref kept) {
  if (coefficient && coefficient.get<A>(0) < 0) return;  // a gradient is not finite
  A mean = 0;                                            // of every thread, in the same order
  for (int64_t e = 0; e < experts; ++e) mean += load.get<A>(e);
  mean /= static_cast<A>(experts);
  for (int64_t e = threadIdx.x; e < experts; e += kThreads) {
    const A own = load.get<A>(e);
    const A step = own < mean ? A(rate) : own > mean ? A(-rate) : A(0);
    bias.set(e, bias.get<A>(e) + step);
    kept.set(e, own);
  }
}

/// A thread per token.
template <class A>
__global__ void route_balance(int64_t tokens, int64_t experts, bool sigmoids, double factor,
                              Ref dlogits, Ref probs, Ref load, Ref loss_scale, Ref y) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (t >= tokens) return;
  A all = 0;
  for (int64_t e = 0; e < experts; ++e) all += load.get<A>(e);
  if (loss_scale) factor *= loss_scale.get<double>(0);
  const A balance = static_cast<A>(factor) / all;
  const auto weight = [&](int64_t e) { return balance * load.get<A>(e); };
  const Balancing<A> balancing(experts, sigmoids, probs, t * experts, weight);
  through_probabilities<A>(
      experts, sigmoids, probs, t * experts, [&](int64_t e) { return balancing(weight(e)); },
      [&](int64_t e, A d) { y.set(t * experts + e, dlogits.get<A>(t * experts + e) + d); });
}

void run_route_forward(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  auto* const chosen = reinterpret_cast<std::int32_t*>(call.scratch);
  for_sum_type(call, [&](auto a) {
    queue.launch({blocks_of(d[0], kThreads)}, {kThreads}, 0, choose<decltype(a)>, d[0], d[1], d[2],
                 d[4] != 0, input_ref(call, 0), input_ref(call, 1), output_ref(call, 0),
                 output_ref(call, 1), chosen);
  });
  const auto experts = static_cast<unsigned>(d[1]);
  std::int32_t* begins = nullptr;
  if (d[3] == 0) {
    begins = chosen + d[0] * d[2];
    auto* const counts = output<std::int32_t>(call, 4);
    queue.launch({experts}, {kThreads}, 0, count_chosen, d[0] * d[2], chosen, counts);
    queue.launch({1}, {1}, 0, begin_places, d[1], counts, begins);
  }
  queue.launch({experts}, {kThreads}, 0, give_places, d[0], d[2], d[3], chosen, begins,
               output<std::int32_t>(call, 2), output<std::int32_t>(call, 3));
}

void run_route_backward(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  auto* const loads = reinterpret_cast<double*>(call.scratch);
  const int64_t n = d[0] * d[2];
  const Slots slots{input<std::int32_t>(call, 2), d[3], d[1], input<std::int32_t>(call, 4)};
  const double factor =
      call.kernel->scalars[0] * static_cast<double>(d[1]) / static_cast<double>(n);
  queue.launch({static_cast<unsigned>(d[1])}, {kThreads}, 0, count_choices, n, slots, factor,
               input_ref(call, 3), loads);
  for_sum_type(call, [&](auto a) {
    queue.launch({blocks_of(d[0], kThreads)}, {kThreads}, 0, route_backward<decltype(a)>, d[0],
                 d[1], d[2], d[4] != 0, input_ref(call, 0), input_ref(call, 1), slots, loads,
                 output_ref(call, 0));
  });
}

void run_route_load(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  queue.launch({static_cast<unsigned>(d[1])}, {kThreads}, 0, route_load, d[0] * d[2],
               Slots{input<std::int32_t>(call, 0), d[3], d[1], input<std::int32_t>(call, 1)},
               call.kernel->accumulate, output_ref(call, 0));
}

void run_router_bias(const KernelCall& call, Queue& queue) {
  for_sum_type(call, [&](auto a) {
    queue.launch({1}, {kThreads}, 0, router_bias<decltype(a)>, call.kernel->dims[0],
                 call.kernel->scalars[0], input_ref(call, 0), input_ref(call, 1),
                 output_ref(call, 0), output_ref(call, 1));
  });
}

void run_route_balance(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const double factor = call.kernel->scalars[0] * static_cast<double>(d[1]);
  for_sum_type(call, [&](auto a) {
    queue.launch({blocks_of(d[0], kThreads)}, {kThreads}, 0, route_balance<decltype(a)>, d[0], d[1],
                 d[2] != 0, factor, input_ref(call, 0), input_ref(call, 1), input_ref(call, 2),
                 input_ref(call, 3), output_ref(call, 0));
  });
}

// ---------------------------------------------------------------- combination

template <class T, int N>
__global__ void combine(int64_t tokens, int64_t cols, int64_t choices, int64_t places, const T* x,
                        Ref gates, const std::int32_t* slots, const T* resid, T* y) {
  using A = Acc<T>;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= tokens * cols) return;
  const int64_t t = at / cols, i = at % cols;
  Values<A, N> sum{};
  for (int64_t c = t * choices; c < (t + 1) * choices; ++c) {
    const int64_t slot = slots[c];
    if (slot < 0 || slot >= places) continue;
    const A gate = gates.get<A>(c);
    const auto v = load<N>(x + slot * cols + i);
    for (int j = 0; j < N; ++j) sum[j] += gate * v[j];
  }
  if (resid != nullptr) {
    const auto r = load<N>(resid + at);
    for (int j = 0; j < N; ++j) sum[j] += r[j];
  }
  store<N>(y + at, sum);
}

/// Each warp takes a choice. No two choices have the same place.
template <class T>
__global__ void combine_backward(int64_t n, int64_t cols, int64_t choices, int64_t places,
                                 const T* dy, const T* x, Ref gates, const std::int32_t* slots,
                                 T* dx, Ref dgates) {
  using A = Acc<T>;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.y;
  if (c >= n) return;
  const int64_t slot = slots[c];
  A sum = 0;
  if (slot >= 0 && slot < places) {
    const A gate = gates.get<A>(c);
    for (int64_t i = threadIdx.x; i < cols; i += kWarp) {
      const A d = value(dy[c / choices * cols + i]);
      sum += d * value(x[slot * cols + i]);
      put(dx[slot * cols + i], gate * d);
    }
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) dgates.set(c, sum);
}

void run_combine(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  for_type(call.kernel->dtype, [&](auto type) {
    using T = decltype(type);
    for_width<T>(d[1], {call.in[0], call.in[3], call.out[0]}, [&](auto w) {
      queue.launch({blocks_of(d[0] * d[1], int64_t{kThreads} * w.kValue)}, {kThreads}, 0,
                   combine<T, w.kValue>, d[0], d[1], d[2], d[3], input<T>(call, 0),
                   input_ref(call, 1), input<std::int32_t>(call, 2), input<T>(call, 3),
                   output<T>(call, 0));
    });
  });
}

void run_combine_backward(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const int64_t n = d[0] * d[2];
  for_type(call.kernel->dtype, [&](auto type) {
    using T = decltype(type);
    queue.clear(call.out[0], d[3] * d[1] * int64_t{sizeof(T)});
    queue.launch({blocks_of(n, kThreads / kWarp)}, {kWarp, kThreads / kWarp}, 0,
                 combine_backward<T>, n, d[1], d[2], d[3], input<T>(call, 0), input<T>(call, 1),
                 input_ref(call, 2), input<std::int32_t>(call, 3), output<T>(call, 0),
                 output_ref(call, 1));
  });
}

/// Each warp takes a row.
template <class T>
__global__ void gate(int64_t rows, int64_t cols, const T* x, Ref logits, const T* resid, T* y) {
  using A = Acc<T>;
  const int64_t r = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.y;
  if (r >= rows) return;
  const A open = A(1) / (A(1) + exponential(-logits.get<A>(r)));
  for (int64_t i = r * cols + threadIdx.x; i < (r + 1) * cols; i += kWarp) {
    put(y[i], open * value(x[i]) + (resid != nullptr ? value(resid[i]) : A(0)));
  }
}

template <class T>
__global__ void gate_backward(int64_t rows, int64_t cols, const T* dy, const T* x, Ref logits,
                              T* dx, Ref dlogits) {
  using A = Acc<T>;
  const int64_t r = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.y;
  if (r >= rows) return;
  const A open = A(1) / (A(1) + exponential(-logits.get<A>(r)));
  A sum = 0;
  for (int64_t i = r * cols + threadIdx.x; i < (r + 1) * cols; i += kWarp) {
    const A d = value(dy[i]);
    sum += d * value(x[i]);
    put(dx[i], open * d);
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) dlogits.set(r, open * (A(1) - open) * sum);
}

void run_gate(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  for_type(call.kernel->dtype, [&](auto type) {
    using T = decltype(type);
    queue.launch({blocks_of(d[0], kThreads / kWarp)}, {kWarp, kThreads / kWarp}, 0, gate<T>, d[0],
                 d[1], input<T>(call, 0), input_ref(call, 1), input<T>(call, 2),
                 output<T>(call, 0));
  });
}

void run_gate_backward(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  for_type(call.kernel->dtype, [&](auto type) {
    using T = decltype(type);
    queue.launch({blocks_of(d[0], kThreads / kWarp)}, {kWarp, kThreads / kWarp}, 0,
                 gate_backward<T>, d[0], d[1], input<T>(call, 0), input<T>(call, 1),
                 input_ref(call, 2), output<T>(call, 0), output_ref(call, 1));
  });
}

std::int64_t chosen_bytes(const Kernel& kernel) {  // and where the places of each expert begin
  return 4 * (kernel.dims[0] * kernel.dims[2] + kernel.dims[1]);
}
std::int64_t load_bytes(const Kernel& kernel) { return 8 * kernel.dims[1]; }
std::int64_t bias_sums(const Kernel& kernel) {
  return column_scratch(kernel, kernel.dims[2], kernel.dims[3], 1);
}

}  // namespace

void add_experts(Registry& rows) {
  rows[KernelKind::GroupedGemm] = {run_grouped_gemm};
  rows[KernelKind::GroupedGemmWeight] = {run_grouped_gemm_weight, bias_sums};
  rows[KernelKind::GroupedGemm].multiplies = true;
  rows[KernelKind::GroupedGemmWeight].multiplies = true;
  rows[KernelKind::RouteForward] = {run_route_forward, chosen_bytes};
  rows[KernelKind::RouteBackward] = {run_route_backward, load_bytes};
  rows[KernelKind::RouteLoad] = {run_route_load};
  rows[KernelKind::RouterBias] = {run_router_bias};
  rows[KernelKind::RouteBalance] = {run_route_balance};
  rows[KernelKind::CombineForward] = {run_combine};
  rows[KernelKind::CombineBackward] = {run_combine_backward};
  rows[KernelKind::GateForward] = {run_gate};
  rows[KernelKind::GateBackward] = {run_gate_backward};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
