// AdamW, Adam, SGD, Lion and the elements of Muon over a shard. Weights have the kernel's type,
// gradients and moments any type.
#include "backends/cuda/kernels/registry.hpp"
#include "core/base/quantized_code.hpp"
#include "core/base/random_rounding.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;

/// The product, rounded before anything is added to it, so that it is the same on host and GPU.
__host__ __device__ __forceinline__ double times(double x, double y) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(x, y);
#else
  return x * y;
#endif
}
__host__ __device__ __forceinline__ double power(double x, int n) {
  double result = 1;
  for (; n > 0; n /= 2, x = times(x, x)) {
    if (n % 2 == 1) result = times(result, x);
  }
  return result;
}

/// What AdamW computes from the numbers of a step.
template <class A>
struct AdamWStep {
  A keep_weight, step_size, inverse_root;
  std::uint64_t rounding;  // the key of the step, for weights that are rounded at random
  static __host__ __device__ AdamWStep of(const StepContext& context, double beta1, double beta2,
                                          double decay) {
    const int t = context.step + 1;
    return {static_cast<A>(1 - times(context.lr, decay)),
            static_cast<A>(context.lr / (1 - power(beta1, t))),
            static_cast<A>(1 / sqrt(1 - power(beta2, t))),
            rounding_key(context.seed, context.step)};
  }
};

/// PyTorch's AdamW (torch/optim/adamw.py, single tensor): decay first, then the step. With
/// `gradient_decay`, its Adam: the decay is added to the gradient, and `step` has none.
template <class T>
struct AdamW {
  using A = Acc<T>;
  Ref grad, coefficient, m, v;
  T* w;
  AdamWStep<A> step;
  const AdamWStep<A>* step_at;  // where to read `step` from on the GPU; null if it is known
  A eps, b1, c1, b2, c2, gradient_decay;
  bool stochastic;
  __device__ void begin() {
    if (step_at != nullptr) step = *step_at;
  }
  template <int N>
  __device__ void at(int64_t i) const {
    const A factor = coefficient ? coefficient.get<A>(0) : A(1);
    if (factor < 0) return;  // a gradient is not finite
    auto weight = load<N>(w + i);
    auto first = m.get_words<N, A>(i), second = v.get_words<N, A>(i);
    const auto gradient = grad.get_words<N, A>(i);
    for (int j = 0; j < N; ++j) {
      const A raw = gradient[j];
      A g = raw * factor;
      if (gradient_decay != 0) g += gradient_decay * weight[j];
      std::uint32_t random = 0;
      if constexpr (sizeof(T) == 2) {
        if (stochastic) random = rounding_bits(step.rounding, weight[j], first[j], second[j], raw);
      }
      weight[j] = moved(weight[j], g, first[j], second[j]);
      if constexpr (sizeof(T) == 2) {
        if (stochastic) weight[j] = rounded_at_random(weight[j], random);
      }
    }
    m.set_words(i, first);
    v.set_words(i, second);
    store<N>(w + i, weight);
  }
  /// The new weight for a gradient that is clipped, and the new moments.
  __device__ A moved(A weight, A g, A& first, A& second) const {
    first = b1 * first + c1 * g;
    second = b2 * second + c2 * (g * g);
    return weight * step.keep_weight -
           step.step_size * (first / (square_root(second) * step.inverse_root + eps));
  }
};

/// AdamW with quantized states: a block of threads takes a block of elements, of which each of the
/// moments has a scale. A thread keeps none of its values: it computes them twice, for the scales
/// and for the codes, because a block may have any size.
template <class T>
__global__ void update_8bit(AdamW<T> f, int64_t n, int64_t size) {
  using A = Acc<T>;
  f.begin();
  const A factor = f.coefficient ? f.coefficient.template get<A>(0) : A(1);
  if (factor < 0) return;  // a gradient is not finite
  const int64_t first = blockIdx.x * size, end = smaller(n, first + size);
  const auto scales = [&](const Ref& state) { return reinterpret_cast<float*>(state.at); };
  const auto codes = [&](const Ref& state) {
    return reinterpret_cast<std::uint8_t*>(scales(state) + gridDim.x);  // one for every block
  };
  const float m_scale = scales(f.m)[blockIdx.x], v_scale = scales(f.v)[blockIdx.x];
  const auto moments = [&](int64_t i, A& m, A& v) {
    m = A(quantized_value(codes(f.m)[i], true) * m_scale);
    v = A(quantized_value(codes(f.v)[i], false) * v_scale);
    return f.moved(value(f.w[i]), f.grad.template get<A>(i) * factor, m, v);
  };
  A most_m = 0, most_v = 0;
  for (int64_t i = first + threadIdx.x; i < end; i += kThreads) {
    A m, v;
    moments(i, m, v);
    most_m = greater(most_m, m < 0 ? -m : m);
    most_v = greater(most_v, v);
  }
  const auto new_m = static_cast<float>(block_max<kThreads>(most_m));
  const auto new_v = static_cast<float>(block_max<kThreads>(most_v));
  const auto code = [](A x, float scale, bool has_sign) {
    const float fraction = scale > 0 ? static_cast<float>(x / A(scale)) : 0.0F;
    return quantized_code(fraction, has_sign, QuantizedLevels{has_sign});
  };
  for (int64_t i = first + threadIdx.x; i < end; i += kThreads) {
    A m, v;
    put(f.w[i], moments(i, m, v));
    codes(f.m)[i] = code(m, new_m, true);
    codes(f.v)[i] = code(v, new_v, false);
  }
  if (threadIdx.x == 0) {
    scales(f.m)[blockIdx.x] = new_m;
    scales(f.v)[blockIdx.x] = new_v;
  }
}

/// torch.optim.SGD with momentum, without dampening.
template <class T>
struct Sgd {
  using A = Acc<T>;
  Ref grad, coefficient, v;
  T* w;
  A momentum, decay, lr;
  const StepContext* step_at;  // where to read `lr` from on the GPU; null if it is known
  __device__ void begin() {
    if (step_at != nullptr) lr = static_cast<A>(step_at->lr);
  }
  template <int N>
  __device__ void at(int64_t i) const {
    const A factor = coefficient ? coefficient.get<A>(0) : A(1);
    if (factor < 0) return;  // a gradient is not finite
    auto weight = load<N>(w + i);
    auto velocity = v.get_words<N, A>(i);
    const auto gradient = grad.get_words<N, A>(i);
    for (int j = 0; j < N; ++j) {
      velocity[j] = momentum * velocity[j] + (gradient[j] * factor + decay * weight[j]);
      weight[j] -= lr * velocity[j];
    }
    v.set_words(i, velocity);
    store<N>(w + i, weight);
  }
};

/// Lion (Chen et al. 2023, algorithm 2).
template <class T>
struct Lion {
  using A = Acc<T>;
  Ref grad, coefficient, m;
  T* w;
  A b1, c1, b2, c2;
  double lr, decay;
  const StepContext* step_at;  // where to read `lr` from on the GPU; null if it is known
  __device__ void begin() {
    if (step_at != nullptr) lr = step_at->lr;
  }
  template <int N>
  __device__ void at(int64_t i) const {
    const A factor = coefficient ? coefficient.get<A>(0) : A(1);
    if (factor < 0) return;  // a gradient is not finite
    const auto step_size = static_cast<A>(lr);
    const auto keep_weight = static_cast<A>(1 - times(lr, decay));
    auto weight = load<N>(w + i);
    auto first = m.get_words<N, A>(i);
    const auto gradient = grad.get_words<N, A>(i);
    for (int j = 0; j < N; ++j) {
      const A g = gradient[j] * factor;
      const A mix = b1 * first[j] + c1 * g;
      const A sign = mix > 0 ? A(1) : mix < 0 ? A(-1) : A(0);
      first[j] = b2 * first[j] + c2 * g;
      weight[j] = weight[j] * keep_weight - step_size * sign;
    }
    m.set_words(i, first);
    store<N>(w + i, weight);
  }
};

/// The momentum of Muon, and the direction that is orthogonalized. All operands have types of their
/// own; T is the kernel's.
template <class T>
struct Momentum {
  using A = Acc<T>;
  Ref grad, coefficient, m, d;
  A momentum;
  bool nesterov;
  __device__ void begin() {}
  template <int N>
  __device__ void at(int64_t i) const {
    const A factor = coefficient ? coefficient.get<A>(0) : A(1);
    auto first = m.get_words<N, A>(i);
    auto direction = grad.get_words<N, A>(i);
    for (int j = 0; j < N; ++j) {
      if (factor < 0) {  // a gradient is not finite
        direction[j] = 0;
        continue;
      }
      const A g = direction[j] * factor;
      first[j] = momentum * first[j] + g;
      direction[j] = nesterov ? g + momentum * first[j] : first[j];
    }
    m.set_words(i, first);
    d.set_words(i, direction);
  }
};

/// x over its norm, whose square is given.
template <class T>
struct Normalize {
  using A = Acc<T>;
  const T* x;
  Ref square;
  T* y;
  A eps;
  __device__ void begin() {}
  template <int N>
  __device__ void at(int64_t i) const {
    const A divisor = square_root(square.get<A>(0)) + eps;
    auto values = load<N>(x + i);
    for (int j = 0; j < N; ++j) values[j] = values[j] / divisor;
    store<N>(y + i, values);
  }
};

/// A replica's term of the mean over replicas of how far they have come, or of their weights.
template <class T>
struct ReplicaTerm {
  using A = Acc<T>;
  Ref w, from, term;
  A factor;
  __device__ void begin() {}
  template <int N>
  __device__ void at(int64_t i) const {
    auto values = w.get_words<N, A>(i);
    if (from) {
      const auto start = from.get_words<N, A>(i);
      for (int j = 0; j < N; ++j) values[j] = start[j] - values[j];
    }
    for (int j = 0; j < N; ++j) values[j] = factor * values[j];
    term.set_words(i, values);
  }
};

/// torch.optim.SGD's step by the way of all replicas, with a rate that is no part of the context.
template <class T>
struct OuterSgd {
  using A = Acc<T>;
  Ref way, m;
  T* w;
  A lr, momentum;
  bool nesterov;
  __device__ void begin() {}
  template <int N>
  __device__ void at(int64_t i) const {
    auto weight = load<N>(w + i);
    auto first = m.get_words<N, A>(i);
    const auto d = way.get_words<N, A>(i);
    for (int j = 0; j < N; ++j) {
      first[j] = momentum * first[j] + d[j];
      weight[j] -= lr * (nesterov ? d[j] + momentum * first[j] : first[j]);
    }
    m.set_words(i, first);
    store<N>(w + i, weight);
  }
};

/// The step of torch.optim.Muon, with decoupled decay.
template <class T>
struct Muon {
  using A = Acc<T>;
  Ref d, coefficient;
  T* w;
  double lr, lr_factor, decay;
  const StepContext* step_at;  // where to read `lr` from on the GPU; null if it is known
  __device__ void begin() {
    if (step_at != nullptr) lr = step_at->lr;
  }
  template <int N>
  __device__ void at(int64_t i) const {
    if (coefficient && coefficient.get<A>(0) < 0) return;  // a gradient is not finite
    const auto step_size = static_cast<A>(times(lr, lr_factor));
    const auto keep_weight = static_cast<A>(1 - times(times(lr, lr_factor), decay));
    auto weight = load<N>(w + i);
    const auto direction = d.get_words<N, A>(i);
    for (int j = 0; j < N; ++j) weight[j] = weight[j] * keep_weight - step_size * direction[j];
    store<N>(w + i, weight);
  }
};

template <int N, class F>
__global__ void update(F f, int64_t n) {
  f.begin();
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (i < n) f.template at<N>(i);
}

template <int N, class F>
void launch_update(Queue& queue, const F& f, int64_t n) {
  queue.launch({blocks_of(n, int64_t{kThreads} * N)}, {kThreads}, 0, update<N, F>, f, n);
}

template <class A>
__global__ void begin_step(const StepContext* context, double beta1, double beta2, double decay,
                           AdamWStep<A>* step) {
  *step = AdamWStep<A>::of(*context, beta1, beta2, decay);
}

void run_adamw(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    using A = Acc<T>;
    const auto& scalars = call.kernel->scalars;
    const bool coupled = call.kernel->kind == KernelKind::Adam;
    const double beta1 = scalars[0], beta2 = scalars[1], decay = coupled ? 0 : scalars[3];
    AdamWStep<A>* const step_at =
        call.context_at != nullptr ? reinterpret_cast<AdamWStep<A>*>(call.scratch) : nullptr;
    if (step_at != nullptr) {
      queue.launch({1}, {1}, 0, begin_step<A>, call.context_at, beta1, beta2, decay, step_at);
    }
    const AdamW<T> f{input_ref(call, 0),
                     input_ref(call, 1),
                     output_ref(call, 1),
                     output_ref(call, 2),
                     output<T>(call, 0),
                     AdamWStep<A>::of(call.context, beta1, beta2, decay),
                     step_at,
                     static_cast<A>(scalars[2]),
                     static_cast<A>(beta1),
                     static_cast<A>(1 - beta1),
                     static_cast<A>(beta2),
                     static_cast<A>(1 - beta2),
                     static_cast<A>(coupled ? scalars[3] : 0),
                     call.kernel->stochastic};
    const int64_t n = call.kernel->dims[0];
    if (call.kernel->kind == KernelKind::AdamW8bit) {
      const int64_t size = call.kernel->dims[1];
      return queue.launch({blocks_of(n, size)}, {kThreads}, 0, update_8bit<T>, f, n, size);
    }
    for_width<T>(n, {f.w, f.m.at, f.v.at, f.grad.at},
                 [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

void run_sgd(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    using A = Acc<T>;
    const Sgd<T> f{input_ref(call, 0),
                   input_ref(call, 1),
                   output_ref(call, 1),
                   output<T>(call, 0),
                   static_cast<A>(call.kernel->scalars[0]),
                   static_cast<A>(call.kernel->scalars[1]),
                   static_cast<A>(call.context.lr),
                   call.context_at};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {f.w, f.v.at, f.grad.at},
                 [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

void run_lion(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    using A = Acc<T>;
    const double beta1 = call.kernel->scalars[0], beta2 = call.kernel->scalars[1];
    const Lion<T> f{input_ref(call, 0),    input_ref(call, 1),
                    output_ref(call, 1),   output<T>(call, 0),
                    static_cast<A>(beta1), static_cast<A>(1 - beta1),
                    static_cast<A>(beta2), static_cast<A>(1 - beta2),
                    call.context.lr,       call.kernel->scalars[2],
                    call.context_at};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {f.w, f.m.at, f.grad.at},
                 [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

void run_momentum(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const Momentum<T> f{input_ref(call, 0),
                        input_ref(call, 1),
                        output_ref(call, 0),
                        output_ref(call, 1),
                        static_cast<Acc<T>>(call.kernel->scalars[0]),
                        call.kernel->scalars[1] != 0};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {f.m.at, f.d.at, f.grad.at},
                 [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

void run_normalize(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const Normalize<T> f{input<T>(call, 0), input_ref(call, 1), output<T>(call, 0),
                         static_cast<Acc<T>>(call.kernel->scalars[0])};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {f.x, f.y}, [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

void run_muon(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const Muon<T> f{input_ref(call, 0), input_ref(call, 1),      output<T>(call, 0),
                    call.context.lr,    call.kernel->scalars[0], call.kernel->scalars[1],
                    call.context_at};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {f.w, f.d.at}, [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

void run_replica_term(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const ReplicaTerm<T> f{input_ref(call, 0), input_ref(call, 1), output_ref(call, 0),
                           static_cast<Acc<T>>(call.kernel->scalars[0])};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {f.w.at, f.from.at, f.term.at},
                 [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

void run_outer_sgd(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const auto& scalars = call.kernel->scalars;
    const OuterSgd<T> f{input_ref(call, 0),
                        output_ref(call, 1),
                        output<T>(call, 0),
                        static_cast<Acc<T>>(scalars[0]),
                        static_cast<Acc<T>>(scalars[1]),
                        scalars[2] != 0};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {f.w, f.m.at, f.way.at}, [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

std::int64_t step_bytes(const Kernel&) { return sizeof(AdamWStep<double>); }

}  // namespace

void add_optimizers(Registry& rows) {
  rows[KernelKind::AdamW] = {run_adamw, step_bytes};
  rows[KernelKind::Adam] = {run_adamw, step_bytes};
  rows[KernelKind::AdamW8bit] = {run_adamw, step_bytes};
  rows[KernelKind::Lion] = {run_lion};
  rows[KernelKind::Momentum] = {run_momentum};
  rows[KernelKind::Normalize] = {run_normalize};
  rows[KernelKind::Muon] = {run_muon};
  rows[KernelKind::ReplicaTerm] = {run_replica_term};
  rows[KernelKind::OuterSgd] = {run_outer_sgd};
  rows[KernelKind::Sgd] = {run_sgd};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
