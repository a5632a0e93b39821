// Norms of gradients, clipping, and the optimizers.
#include <algorithm>
#include <cmath>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"
#include "core/base/quantized_state.hpp"
#include "core/base/random_rounding.hpp"

namespace lockstep::reference {
namespace {

/// The sum of many elements, as exact as float64 can express it.
template <class Values>
double total(const Values& values) {
  return static_cast<double>(values.template cast<long double>().sum());
}

/// The gradient times the clipping coefficient, if there is one.
Row clipped(Operands& k) { return k.in(0).row(0) * (k.has_in(1) ? k.in(1)(0) : 1.0); }

/// Whether the coefficient says that a gradient is not finite, so that nothing is to change.
bool skips(Operands& k) { return k.has_in(1) && k.in(1)(0) < 0; }

/// The moment in output `i`, which may be a quantized state.
QuantizedState quantized(Operands& k, std::size_t i) { return {k.dim(0), k.dim(1), i == 1}; }
bool is_quantized(Operands& k) { return k.kernel().kind == KernelKind::AdamW8bit; }
std::vector<std::byte> bytes_of(Operands& k, std::size_t i) {
  std::vector<std::byte> bytes;
  for (const double x : k.out(i).reshaped()) bytes.push_back(static_cast<std::byte>(x));
  return bytes;
}
Row moment(Operands& k, std::size_t i) {
  if (!is_quantized(k)) return k.out(i).row(0);
  const QuantizedState shape = quantized(k, i);
  Row values(k.dim(0));
  read_quantized(shape, bytes_of(k, i).data(), 0, shape.blocks(), values.data());
  return values;
}
void set_moment(Operands& k, std::size_t i, const Row& values) {
  if (!is_quantized(k)) {
    k.out(i) = values;
    return;
  }
  const QuantizedState shape = quantized(k, i);
  std::vector<std::byte> state = bytes_of(k, i);
  write_quantized(shape, values.data(), 0, shape.blocks(), state.data());
  std::transform(state.begin(), state.end(), k.out(i).data(),
                 [](std::byte byte) { return std::to_integer<int>(byte); });
}

void sum(Operands& k) { k.set(k.out(0), total(k.in(0))); }

void norm_squared(Operands& k) {
  const Index n = k.dim(0), blocks = k.dim(1), length = (n + blocks - 1) / blocks;
  for (Index b = 0; b < blocks; ++b) {
    const Index begin = std::min(n, b * length), end = std::min(n, begin + length);
    k.set(k.out(0)(b), total(k.in(0).row(0).segment(begin, end - begin).square()));
  }
}

void clip_coefficient(Operands& k) {
  const double scale = k.factor(1);
  const double norm = std::sqrt(total(k.in(0))) / scale, most = k.scalar(0);
  k.out(0) = (most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1.0) / scale;
  if (k.has_in(1) && !std::isfinite(norm)) k.out(0) = -1;
  k.out(1) = norm;
}

/// AdamW (Loshchilov and Hutter 2019, algorithm 2), with the learning rate applied as in
/// torch.optim.AdamW.
void adamw(Operands& k) {
  if (skips(k)) return;
  const double beta1 = k.scalar(0), beta2 = k.scalar(1), eps = k.scalar(2), decay = k.scalar(3);
  const double lr = k.context().lr, t = k.context().step + 1;
  const Row old_w = k.out(0).row(0), old_m = moment(k, 1), old_v = moment(k, 2);
  const Row g = clipped(k);
  const Row m = beta1 * old_m + (1 - beta1) * g;
  const Row v = beta2 * old_v + (1 - beta2) * g.square();
  Row w = old_w - lr * decay * old_w -
          lr * (m / (1 - std::pow(beta1, t))) / ((v / (1 - std::pow(beta2, t))).sqrt() + eps);
  if (k.kernel().stochastic) {
    const std::uint64_t key = rounding_key(k.context().seed, k.context().step);
    const auto narrow = [](double x) { return static_cast<float>(x); };
    for (Index i = 0; i < w.size(); ++i) {
      w(i) = rounded_at_random(narrow(w(i)), rounding_bits(key, narrow(old_w(i)), narrow(old_m(i)),
                                                           narrow(old_v(i)), narrow(k.in(0)(i))));
    }
  }
  k.out(0) = w;
  set_moment(k, 1, m);
  set_moment(k, 2, v);
}

/// Adam (Kingma and Ba 2015, algorithm 1), where the decay is part of the gradient as in
/// torch.optim.Adam.
void adam(Operands& k) {
  if (skips(k)) return;
  const double beta1 = k.scalar(0), beta2 = k.scalar(1), eps = k.scalar(2), decay = k.scalar(3);
  const double t = k.context().step + 1;
  const Row w = k.out(0).row(0);
  const Row g = clipped(k) + decay * w;
  k.out(1) = beta1 * k.out(1) + (1 - beta1) * g;
  k.out(2) = beta2 * k.out(2) + (1 - beta2) * g.square();
  const Row m = k.out(1).row(0) / (1 - std::pow(beta1, t));
  const Row v = k.out(2).row(0) / (1 - std::pow(beta2, t));
  k.out(0) = w - k.context().lr * (m / (v.sqrt() + eps));
}

/// Algorithm 2 of Chen et al. 2023.
void lion(Operands& k) {
  if (skips(k)) return;
  const double beta1 = k.scalar(0), beta2 = k.scalar(1), decay = k.scalar(2);
  const Row g = clipped(k), m = k.out(1).row(0), w = k.out(0).row(0);
  k.out(0) = w - k.context().lr * ((beta1 * m + (1 - beta1) * g).sign() + decay * w);
  k.out(1) = beta2 * m + (1 - beta2) * g;
}

/// Algorithm 1 of Wang et al. 2024, over the load of all ranks.
void router_bias(Operands& k) {
  if (skips(k)) return;
  const Row load = k.in(0).row(0);
  k.out(0) += k.scalar(0) * (load.mean() - load).sign();
  k.out(1) = load;
}

/// The momentum of Muon, with the direction that is orthogonalized.
void momentum(Operands& k) {
  if (skips(k)) {
    k.out(1) = 0;
    return;
  }
  const double momentum = k.scalar(0);
  const Row g = clipped(k);
  const Row m = momentum * k.out(0).row(0) + g;
  k.out(0) = m;
  k.out(1) = k.scalar(1) != 0 ? Row(g + momentum * m) : m;
}

void normalize(Operands& k) { k.out(0) = k.in(0) / (std::sqrt(k.in(1)(0)) + k.scalar(0)); }

/// The step of torch.optim.Muon, with decoupled decay.
void muon(Operands& k) {
  if (skips(k)) return;
  const double lr = k.context().lr * k.scalar(0);
  k.out(0) -= lr * (k.in(0) + k.scalar(1) * k.out(0));
}

void replica_term(Operands& k) {
  const Row w = k.in(0).row(0);
  k.out(0) = k.scalar(0) * (k.has_in(1) ? Row(k.in(1).row(0) - w) : w);
}

/// The step of torch.optim.SGD by the way of all replicas, with a rate and a momentum of its own.
void outer_sgd(Operands& k) {
  const double lr = k.scalar(0), momentum = k.scalar(1);
  const Row d = k.in(0).row(0);
  const Row m = momentum * k.out(1).row(0) + d;
  k.out(1) = m;
  k.out(0) -= lr * (k.scalar(2) != 0 ? Row(d + momentum * m) : m);
}

/// SGD as in torch.optim.SGD, where the decay is part of the gradient.
void sgd(Operands& k) {
  if (skips(k)) return;
  const double momentum = k.scalar(0), decay = k.scalar(1);
  const Row w = k.out(0).row(0);
  k.out(1) = momentum * k.out(1) + (clipped(k) + decay * w);
  k.out(0) = w - k.context().lr * k.out(1);
}

}  // namespace

void add_optimizer(Definitions& kernels) {
  kernels[KernelKind::Sum] = sum;
  kernels[KernelKind::NormSquared] = norm_squared;
  kernels[KernelKind::ClipCoefficient] = clip_coefficient;
  kernels[KernelKind::AdamW] = adamw;
  kernels[KernelKind::AdamW8bit] = adamw;
  kernels[KernelKind::Adam] = adam;
  kernels[KernelKind::Lion] = lion;
  kernels[KernelKind::RouterBias] = router_bias;
  kernels[KernelKind::Momentum] = momentum;
  kernels[KernelKind::Normalize] = normalize;
  kernels[KernelKind::Muon] = muon;
  kernels[KernelKind::ReplicaTerm] = replica_term;
  kernels[KernelKind::OuterSgd] = outer_sgd;
  kernels[KernelKind::Sgd] = sgd;
}

}  // namespace lockstep::reference
