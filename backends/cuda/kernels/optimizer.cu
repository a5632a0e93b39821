// AdamW, Adam and SGD over a shard. Weights and moments have the kernel's type, gradients any type.
#include "backends/cuda/kernels/registry.hpp"
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
  Ref grad, coefficient;
  T *w, *m, *v;
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
    auto weight = load<N>(w + i), first = load<N>(m + i), second = load<N>(v + i);
    const auto gradient = grad.get_words<N, A>(i);
    for (int j = 0; j < N; ++j) {
      const A raw = gradient[j];
      A g = raw * factor;
      if (gradient_decay != 0) g += gradient_decay * weight[j];
      std::uint32_t random = 0;
      if constexpr (sizeof(T) == 2) {
        if (stochastic) random = rounding_bits(step.rounding, weight[j], first[j], second[j], raw);
      }
      first[j] = b1 * first[j] + c1 * g;
      second[j] = b2 * second[j] + c2 * (g * g);
      weight[j] = weight[j] * step.keep_weight -
                  step.step_size * (first[j] / (square_root(second[j]) * step.inverse_root + eps));
      if constexpr (sizeof(T) == 2) {
        if (stochastic) weight[j] = rounded_at_random(weight[j], random);
      }
    }
    store<N>(m + i, first);
    store<N>(v + i, second);
    store<N>(w + i, weight);
  }
};

/// torch.optim.SGD with momentum, without dampening.
template <class T>
struct Sgd {
  using A = Acc<T>;
  Ref grad, coefficient;
  T *w, *v;
  A momentum, decay, lr;
  const StepContext* step_at;  // where to read `lr` from on the GPU; null if it is known
  __device__ void begin() {
    if (step_at != nullptr) lr = static_cast<A>(step_at->lr);
  }
  template <int N>
  __device__ void at(int64_t i) const {
    const A factor = coefficient ? coefficient.get<A>(0) : A(1);
    if (factor < 0) return;  // a gradient is not finite
    auto weight = load<N>(w + i), velocity = load<N>(v + i);
    const auto gradient = grad.get_words<N, A>(i);
    for (int j = 0; j < N; ++j) {
      velocity[j] = momentum * velocity[j] + (gradient[j] * factor + decay * weight[j]);
      weight[j] -= lr * velocity[j];
    }
    store<N>(v + i, velocity);
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
                     output<T>(call, 0),
                     output<T>(call, 1),
                     output<T>(call, 2),
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
    for_width<T>(n, {f.w, f.m, f.v, f.grad.at},
                 [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

void run_sgd(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    using A = Acc<T>;
    const Sgd<T> f{input_ref(call, 0),
                   input_ref(call, 1),
                   output<T>(call, 0),
                   output<T>(call, 1),
                   static_cast<A>(call.kernel->scalars[0]),
                   static_cast<A>(call.kernel->scalars[1]),
                   static_cast<A>(call.context.lr),
                   call.context_at};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {f.w, f.v, f.grad.at}, [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

std::int64_t step_bytes(const Kernel&) { return sizeof(AdamWStep<double>); }

}  // namespace

void add_optimizers(Registry& rows) {
  rows[KernelKind::AdamW] = {run_adamw, step_bytes};
  rows[KernelKind::Adam] = {run_adamw, step_bytes};
  rows[KernelKind::Sgd] = {run_sgd};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
