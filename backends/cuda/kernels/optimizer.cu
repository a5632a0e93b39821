// AdamW and SGD over a shard: weights and moments in the kernel's type, gradients in any.
#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;

/// PyTorch's AdamW (torch/optim/adamw.py, single tensor): decay first, then the step.
template <class T>
struct AdamW {
  using A = Acc<T>;
  Ref grad, coefficient;
  T *w, *m, *v;
  A keep_weight, step_size, inverse_root, eps, b1, c1, b2, c2;
  template <int N>
  __device__ void at(int64_t i) const {
    const A factor = coefficient ? coefficient.get<A>(0) : A(1);
    auto weight = load<N>(w + i), first = load<N>(m + i), second = load<N>(v + i);
    for (int j = 0; j < N; ++j) {
      const A g = grad.get<A>(i + j) * factor;
      first[j] = b1 * first[j] + c1 * g;
      second[j] = b2 * second[j] + c2 * (g * g);
      weight[j] = weight[j] * keep_weight -
                  step_size * (first[j] / (square_root(second[j]) * inverse_root + eps));
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
  template <int N>
  __device__ void at(int64_t i) const {
    const A factor = coefficient ? coefficient.get<A>(0) : A(1);
    auto weight = load<N>(w + i), velocity = load<N>(v + i);
    for (int j = 0; j < N; ++j) {
      velocity[j] = momentum * velocity[j] + (grad.get<A>(i + j) * factor + decay * weight[j]);
      weight[j] -= lr * velocity[j];
    }
    store<N>(v + i, velocity);
    store<N>(w + i, weight);
  }
};

template <int N, class F>
__global__ void update(F f, int64_t n) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (i < n) f.template at<N>(i);
}

template <int N, class F>
void launch_update(Queue& queue, const F& f, int64_t n) {
  queue.launch({blocks_of(n, int64_t{kThreads} * N)}, {kThreads}, 0, update<N, F>, f, n);
}

void run_adamw(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    using A = Acc<T>;
    const auto& scalars = call.kernel->scalars;
    const double beta1 = scalars[0], beta2 = scalars[1], lr = call.context.lr;
    const double step = static_cast<double>(call.context.step) + 1;
    const AdamW<T> f{input_ref(call, 0),
                     input_ref(call, 1),
                     output<T>(call, 0),
                     output<T>(call, 1),
                     output<T>(call, 2),
                     static_cast<A>(1 - lr * scalars[3]),
                     static_cast<A>(lr / (1 - __builtin_pow(beta1, step))),
                     static_cast<A>(1 / __builtin_sqrt(1 - __builtin_pow(beta2, step))),
                     static_cast<A>(scalars[2]),
                     static_cast<A>(beta1),
                     static_cast<A>(1 - beta1),
                     static_cast<A>(beta2),
                     static_cast<A>(1 - beta2)};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {f.w, f.m, f.v}, [&](auto w) { launch_update<w.kValue>(queue, f, n); });
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
                   static_cast<A>(call.context.lr)};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {f.w, f.v}, [&](auto w) { launch_update<w.kValue>(queue, f, n); });
  });
}

}  // namespace

void add_optimizers(Registry& rows) {
  rows[KernelKind::AdamW] = {"ss", "mmm", run_adamw};
  rows[KernelKind::Sgd] = {"ss", "mm", run_sgd};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
