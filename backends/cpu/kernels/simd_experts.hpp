// Mixtures of experts: products by expert, routing of tokens to places, combination of what the
// experts make of them. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_gemm.hpp"
#include "backends/cpu/kernels/simd_math.hpp"

namespace lockstep::cpu {
namespace {

template <class T>
void run_grouped_gemm(const KernelArgs& args) {
  const int64_t groups = args.dims[0], chunks = args.dims[1];
  const int64_t m = args.dims[2], n = args.dims[3], k = args.dims[4];
  const T* const bias = input<T>(args, 2);
  for (int64_t part = 0; part < chunks * groups; ++part) {
    const int64_t g = part % groups;
    team_gemm<T>(*args.team, false, args.dims[5] != 0, m, n, k, input<T>(args, 0) + part * m * k,
                 input<T>(args, 1) + g * n * k, output<T>(args, 0) + part * m * n,
                 {false, bias ? bias + g * n : nullptr, nullptr, 0});
  }
}

/// Chunks are added in order, each to the sum of those before.
template <class T>
void run_grouped_gemm_weight(const KernelArgs& args) {
  const int64_t groups = args.dims[0], chunks = args.dims[1], rows = args.dims[2];
  const int64_t m = args.dims[3], n = args.dims[4];
  const T* const dy = input<T>(args, 0);
  for (int64_t part = 0; part < chunks * groups; ++part) {
    const int64_t g = part % groups;
    team_gemm<T>(*args.team, true, false, m, n, rows, dy + part * rows * m,
                 input<T>(args, 1) + part * rows * n, output<T>(args, 0) + g * m * n,
                 {args.accumulate || part >= groups, nullptr, nullptr, 0});
  }
  T* const bias = output<T>(args, 1);
  if (bias == nullptr) return;
  parallel(*args.team, groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      for_vectors<T>(0, m, [&](int64_t i, auto width) {
        Vec<T> sum = args.accumulate ? load(bias + g * m + i, width) : Vec<T>{};
        for (int64_t c = 0; c < chunks; ++c) {
          const T* const first = dy + (c * groups + g) * rows * m;
          for (int64_t r = 0; r < rows; ++r) sum += load(first + r * m + i, width);
        }
        store(bias + g * m + i, sum, width);
      });
    }
  });
}

template <class T>
void softmax_row(const T* x, int64_t n, T* y) {
  const T lowest = -__builtin_huge_val();
  Vec<T> top = splat(lowest);
  for_vectors<T>(0, n, [&](int64_t i, auto width) {
    top = max<T>(top, keep<T>(load(x + i, width), lowest, width));
  });
  const T largest = max_lanes<T>(top);
  Vec<T> sums{};
  for_vectors<T>(0, n, [&](int64_t i, auto width) {
    const Vec<T> e = exponential(load(x + i, width) - largest);
    sums += keep<T>(e, T(0), width);
    store(y + i, e, width);
  });
  const T sum = sum_lanes<T>(sums);
  for_vectors<T>(0, n,
                 [&](int64_t i, auto width) { store(y + i, load(y + i, width) / sum, width); });
}

/// Every element's own probability, where softmax_row() gives those of one choice.
template <class T>
void sigmoid_row(const T* x, int64_t n, T* y) {
  for_vectors<T>(
      0, n, [&](int64_t i, auto width) { store(y + i, sigmoid<T>(load(x + i, width)), width); });
}

/// Adds to d the gradient of sum(weights × p / sum(p)). Of a softmax, whose sum is 1, what all
/// elements have in common is left out: it has no slope.
template <class T>
void add_balancing(const T* weights, const T* p, int64_t n, bool sigmoids, T* d) {
  T sum = 0, along = 0;
  for (int64_t e = 0; sigmoids && e < n; ++e) {
    sum += p[e];
    along += weights[e] * p[e];
  }
  for (int64_t e = 0; e < n; ++e) d[e] += sigmoids ? (weights[e] - along / sum) / sum : weights[e];
}

/// Makes the gradients d of the probabilities p those of the logits.
template <class T>
void through_probabilities(const T* p, int64_t n, bool sigmoids, T* d) {
  T mean = 0;
  for (int64_t e = 0; !sigmoids && e < n; ++e) mean += p[e] * d[e];
  for (int64_t e = 0; e < n; ++e) d[e] = p[e] * (sigmoids ? d[e] * (T(1) - p[e]) : d[e] - mean);
}

/// Chooses the most probable experts, whose biases count, too, if there are any (of equals the
/// first), and computes their gates.
template <class T>
void choose(const T* probs, const T* bias, int64_t experts, int64_t choices, std::int32_t* chosen,
            T* gates) {
  const auto score = [&](int64_t e) { return bias == nullptr ? probs[e] : probs[e] + bias[e]; };
  T sum = 0;
  for (int64_t c = 0; c < choices; ++c) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; ++e) {
      bool taken = false;
      for (int64_t before = 0; before < c; ++before) taken |= chosen[before] == e;
      if (!taken && (best < 0 || score(e) > score(best))) best = e;
    }
    chosen[c] = static_cast<std::int32_t>(best);
    gates[c] = probs[best];
    sum += gates[c];
  }
  for (int64_t c = 0; choices > 1 && c < choices; ++c) gates[c] /= sum;
}

template <class T>
void run_route_forward(const KernelArgs& args) {
  const int64_t tokens = args.dims[0], experts = args.dims[1];
  const int64_t choices = args.dims[2], capacity = args.dims[3];
  T* const probs = output<T>(args, 0);
  std::int32_t* const slots = output<std::int32_t>(args, 2);
  std::int32_t* const sources = output<std::int32_t>(args, 3);
  parallel(*args.team, tokens, row_grain(experts), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* const logits = input<T>(args, 0) + t * experts;
      if (args.dims[4] != 0) {
        sigmoid_row<T>(logits, experts, probs + t * experts);
      } else {
        softmax_row<T>(logits, experts, probs + t * experts);
      }
      choose<T>(probs + t * experts, input<T>(args, 1), experts, choices, slots + t * choices,
                output<T>(args, 1) + t * choices);
    }
  });
  for (int64_t i = 0; i < experts * capacity; ++i) sources[i] = -1;
  auto* const taken = static_cast<std::int32_t*>(
      scratch(Scratch::Rows, static_cast<std::size_t>(experts) * sizeof(std::int32_t)));
  for (int64_t e = 0; e < experts; ++e) taken[e] = 0;
  for (int64_t c = 0; c < choices; ++c) {
    for (int64_t t = 0; t < tokens; ++t) {
      std::int32_t& slot = slots[t * choices + c];
      const std::int32_t expert = slot;
      if (taken[expert] == capacity) {
        slot = -1 - expert;
      } else {
        slot = static_cast<std::int32_t>(expert * capacity) + taken[expert]++;
        sources[slot] = static_cast<std::int32_t>(t);
      }
    }
  }
}

template <class T>
void run_route_load(const KernelArgs& args) {
  const int64_t tokens = args.dims[0], experts = args.dims[1];
  const int64_t choices = args.dims[2], capacity = args.dims[3];
  const std::int32_t* const slots = input<std::int32_t>(args, 0);
  T* const load = output<T>(args, 0);
  for (int64_t e = 0; e < experts && !args.accumulate; ++e) load[e] = 0;
  for (int64_t i = 0; i < tokens * choices; ++i) {
    const int64_t e = slots[i] < 0 ? -1 - int64_t{slots[i]} : slots[i] / capacity;
    load[e < experts ? e : experts - 1] += 1;
  }
}

/// Moves the biases of a router against the load of its experts, by the sign alone.
template <class T>
void run_router_bias(const KernelArgs& args) {
  if (read_factor(args, 1) < 0) return;  // a gradient is not finite
  const int64_t experts = args.dims[0];
  const T rate = static_cast<T>(args.scalars[0]);
  const T* const load = input<T>(args, 0);
  T all = 0;
  for (int64_t e = 0; e < experts; ++e) all += load[e];
  const T mean = all / static_cast<T>(experts);
  for (int64_t e = 0; e < experts; ++e) {
    output<T>(args, 0)[e] += load[e] < mean ? rate : load[e] > mean ? -rate : T(0);
    output<T>(args, 1)[e] = load[e];
  }
}

template <class T>
void run_route_balance(const KernelArgs& args) {
  const int64_t tokens = args.dims[0], experts = args.dims[1];
  const T* const load = input<T>(args, 2);
  T all = 0;
  for (int64_t e = 0; e < experts; ++e) all += load[e];
  const double factor = args.scalars[0] * read_factor(args, 3);
  const T balance = static_cast<T>(factor * static_cast<double>(experts)) / all;
  T* const weights =
      static_cast<T*>(scratch(Scratch::Rows, static_cast<std::size_t>(experts) * sizeof(T)));
  for (int64_t e = 0; e < experts; ++e) weights[e] = balance * load[e];
  const bool sigmoids = args.dims[2] != 0;
  parallel(*args.team, tokens, row_grain(experts), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* const d = input<T>(args, 0) + t * experts;
      const T* const p = input<T>(args, 1) + t * experts;
      T* const y = output<T>(args, 0) + t * experts;
      for (int64_t e = 0; e < experts; ++e) y[e] = 0;
      add_balancing(weights, p, experts, sigmoids, y);
      through_probabilities(p, experts, sigmoids, y);
      for (int64_t e = 0; e < experts; ++e) y[e] += d[e];
    }
  });
}

/// The gradient goes through the probabilities and, with several choices, through their division by
/// the sum.
template <class T>
void run_route_backward(const KernelArgs& args) {
  const int64_t tokens = args.dims[0], experts = args.dims[1];
  const int64_t choices = args.dims[2], capacity = args.dims[3];
  const std::int32_t* const slots = input<std::int32_t>(args, 2);
  const auto expert_of = [=](std::int32_t slot) {
    const int64_t e = slot < 0 ? -1 - int64_t{slot} : slot / capacity;
    return e < experts ? e : experts - 1;
  };
  T* const load_terms =
      static_cast<T*>(scratch(Scratch::Rows, static_cast<std::size_t>(experts) * sizeof(T)));
  for (int64_t e = 0; e < experts; ++e) load_terms[e] = 0;
  for (int64_t i = 0; i < tokens * choices; ++i) load_terms[expert_of(slots[i])] += 1;
  const double factor = args.scalars[0] * read_factor(args, 3);
  const T balance =
      static_cast<T>(factor * static_cast<double>(experts) / static_cast<double>(tokens * choices));
  for (int64_t e = 0; e < experts; ++e) load_terms[e] *= balance;
  const bool sigmoids = args.dims[4] != 0;
  parallel(*args.team, tokens, row_grain(experts), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* const p = input<T>(args, 1) + t * experts;
      const T* const dgates = input<T>(args, 0) + t * choices;
      const std::int32_t* const slot = slots + t * choices;
      T* const d = output<T>(args, 0) + t * experts;
      for (int64_t e = 0; e < experts; ++e) d[e] = 0;
      add_balancing(load_terms, p, experts, sigmoids, d);
      T sum = 0, along = 0;
      for (int64_t c = 0; c < choices; ++c) {
        sum += p[expert_of(slot[c])];
        along += dgates[c] * p[expert_of(slot[c])];
      }
      for (int64_t c = 0; c < choices; ++c) {
        d[expert_of(slot[c])] += choices > 1 ? (dgates[c] - along / sum) / sum : dgates[c];
      }
      through_probabilities(p, experts, sigmoids, d);
    }
  });
}

template <class T>
void run_combine_forward(const KernelArgs& args) {
  const int64_t tokens = args.dims[0], cols = args.dims[1];
  const int64_t choices = args.dims[2], places = args.dims[3];
  const T* const x = input<T>(args, 0);
  const T* const residual = input<T>(args, 3);
  parallel(*args.team, tokens, row_grain(cols * choices), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* const gates = input<T>(args, 1) + t * choices;
      const std::int32_t* const slots = input<std::int32_t>(args, 2) + t * choices;
      T* const y = output<T>(args, 0) + t * cols;
      for_vectors<T>(0, cols, [&](int64_t i, auto width) {
        Vec<T> sum{};
        for (int64_t c = 0; c < choices; ++c) {
          if (slots[c] >= 0 && slots[c] < places)
            sum += gates[c] * load(x + slots[c] * cols + i, width);
        }
        if (residual) sum += load(residual + t * cols + i, width);
        store(y + i, sum, width);
      });
    }
  });
}

template <class T>
void run_combine_backward(const KernelArgs& args) {
  const int64_t tokens = args.dims[0], cols = args.dims[1];
  const int64_t choices = args.dims[2], places = args.dims[3];
  T* const dx = output<T>(args, 0);
  parallel(*args.team, places * cols, 65536, [&](int64_t begin, int64_t end) {
    __builtin_memset(dx + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(T));
  });
  parallel(*args.team, tokens, row_grain(cols * choices), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* const dy = input<T>(args, 0) + t * cols;
      for (int64_t c = t * choices; c < (t + 1) * choices; ++c) {
        const int64_t slot = input<std::int32_t>(args, 3)[c];
        T& dgate = output<T>(args, 1)[c];
        dgate = 0;
        if (slot < 0 || slot >= places) continue;
        const T gate = input<T>(args, 2)[c];
        const T* const x = input<T>(args, 1) + slot * cols;
        Vec<T> sums{};
        for_vectors<T>(0, cols, [&](int64_t i, auto width) {
          const Vec<T> d = load(dy + i, width);
          sums += d * load(x + i, width);  // both are zero beyond the end of a row
          store(dx + slot * cols + i, gate * d, width);
        });
        dgate = sum_lanes<T>(sums);
      }
    }
  });
}

template <class T>
T sigmoid_of(T x) {
  return T(1) / (T(1) + exponential(splat(-x))[0]);
}

template <class T>
void run_gate_forward(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T* const residual = input<T>(args, 2);
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T gate = sigmoid_of(input<T>(args, 1)[r]);
      for_vectors<T>(r * cols, (r + 1) * cols, [&](int64_t i, auto width) {
        Vec<T> y = gate * load(input<T>(args, 0) + i, width);
        if (residual) y += load(residual + i, width);
        store(output<T>(args, 0) + i, y, width);
      });
    }
  });
}

template <class T>
void run_gate_backward(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T gate = sigmoid_of(input<T>(args, 2)[r]);
      Vec<T> sums{};
      for_vectors<T>(r * cols, (r + 1) * cols, [&](int64_t i, auto width) {
        const Vec<T> d = load(input<T>(args, 0) + i, width);
        sums += d * load(input<T>(args, 1) + i, width);  // both are zero beyond the end of a row
        store(output<T>(args, 0) + i, gate * d, width);
      });
      output<T>(args, 1)[r] = gate * (T(1) - gate) * sum_lanes<T>(sums);
    }
  });
}

}  // namespace
}  // namespace lockstep::cpu
