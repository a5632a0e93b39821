// Mixtures of experts: products by expert, routing of tokens to places, combination of what the
// experts make of them. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/ragged_parts.hpp"
#include "backends/cpu/kernels/simd_elementwise.hpp"
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
                 {args.accumulate, bias ? bias + g * n : nullptr, nullptr, 0});
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
void run_ragged_gemm(const KernelArgs& args) {
  const int64_t groups = args.dims[0], chunks = args.dims[1], n = args.dims[4], k = args.dims[5];
  const T* const bias = input<T>(args, 2);
  for_ragged_parts(input<std::int32_t>(args, 3), groups * chunks, groups, args.dims[7],
                   args.dims[2], [&](int64_t g, int64_t row, int64_t rows) {
                     team_gemm<T>(*args.team, false, args.dims[6] != 0, rows, n, k,
                                  input<T>(args, 0) + row * k, input<T>(args, 1) + g * n * k,
                                  output<T>(args, 0) + row * n,
                                  {args.accumulate, bias ? bias + g * n : nullptr, nullptr, 0});
                   });
}

/// Chunks are added in order, each to the sum of those before; groups without rows get zeros.
template <class T>
void run_ragged_gemm_weight(const KernelArgs& args) {
  const int64_t groups = args.dims[0], chunks = args.dims[1], m = args.dims[4], n = args.dims[5];
  const std::int32_t* const counts = input<std::int32_t>(args, 2);
  const T* const dy = input<T>(args, 0);
  T* const dw = output<T>(args, 0);
  T* const bias = output<T>(args, 1);
  auto* const added = static_cast<bool*>(scratch(Scratch::Rows, static_cast<std::size_t>(groups)));
  for (int64_t g = 0; g < groups; ++g) added[g] = args.accumulate;
  if (bias != nullptr && !args.accumulate) {
    __builtin_memset(bias, 0, static_cast<std::size_t>(groups * m) * sizeof(T));
  }
  const auto add = [&](int64_t g, int64_t row, int64_t rows) {
    team_gemm<T>(*args.team, true, false, m, n, rows, dy + row * m, input<T>(args, 1) + row * n,
                 dw + g * m * n, {added[g], nullptr, nullptr, 0});
    added[g] = true;
    if (bias == nullptr) return;
    for_vectors<T>(0, m, [&](int64_t i, auto width) {
      Vec<T> sum = load(bias + g * m + i, width);
      for (int64_t r = row; r < row + rows; ++r) sum += load(dy + r * m + i, width);
      store(bias + g * m + i, sum, width);
    });
  };
  for_ragged_parts(counts, groups * chunks, groups, args.dims[6], args.dims[2], add);
  for (int64_t g = 0; g < groups; ++g) {
    if (added[g]) continue;
    __builtin_memset(dw + g * m * n, 0, static_cast<std::size_t>(m * n) * sizeof(T));
  }
}

/// The activation without counts, of as many rows of each block as they say. `widths`: columns of
/// the inputs but the last, which is counts, and then of the output.
template <class T, KernelFunction kPlain, KernelFunction kGated, int kInputs>
void run_ragged_activation(const KernelArgs& args, const int64_t (&widths)[kInputs + 1]) {
  const int64_t cols = args.dims[2], gated = args.dims[3], blocks = args.dims[5];
  const int64_t parts = args.dims[4] / blocks, places = args.dims[0] / blocks;
  const std::int32_t* const counts = input<std::int32_t>(args, kInputs);
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t rows = 0;
    for (int64_t part = 0; part < parts; ++part) rows += counts[block * parts + part];
    const int64_t dims[2] = {gated != 0 ? rows : rows * cols, cols};
    KernelArgs of_rows = args;
    of_rows.dims = dims;
    const auto skip = [&](std::byte* at, int64_t width) {
      return at + block * places * width * static_cast<int64_t>(sizeof(T));
    };
    for (int i = 0; i < kInputs; ++i) of_rows.in[i] = skip(args.in[i], widths[i]);
    of_rows.out[0] = skip(args.out[0], widths[kInputs]);
    gated != 0 ? kGated(of_rows) : kPlain(of_rows);
  }
}
template <class T>
void run_ragged_activation_forward(const KernelArgs& args) {
  const int64_t cols = args.dims[2], pre = (1 + args.dims[3]) * cols;
  run_ragged_activation<T, run_function_forward<T, Gelu<T>>, run_gated_forward<T, Silu<T>>, 1>(
      args, {pre, cols});
}
template <class T>
void run_ragged_activation_backward(const KernelArgs& args) {
  const int64_t cols = args.dims[2], pre = (1 + args.dims[3]) * cols;
  run_ragged_activation<T, run_function_backward<T, Gelu<T>>, run_gated_backward<T, Silu<T>>, 2>(
      args, {cols, pre, pre});
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

/// Counts the choices of each expert, and gives each a place behind those of the experts before and
/// of the choices before. `slots` are experts first, then places.
inline void pack_choices(int64_t tokens, int64_t experts, int64_t choices, std::int32_t* slots,
                         std::int32_t* sources, std::int32_t* counts) {
  auto* const next = static_cast<std::int32_t*>(
      scratch(Scratch::Rows, static_cast<std::size_t>(experts) * sizeof(std::int32_t)));
  for (int64_t e = 0; e < experts; ++e) counts[e] = 0;
  for (int64_t i = 0; i < tokens * choices; ++i) ++counts[slots[i]];
  std::int32_t before = 0;
  for (int64_t e = 0; e < experts; ++e) {
    next[e] = before;
    before += counts[e];
  }
  for (int64_t c = 0; c < choices; ++c) {
    for (int64_t t = 0; t < tokens; ++t) {
      std::int32_t& slot = slots[t * choices + c];
      slot = next[slot]++;
      sources[slot] = static_cast<std::int32_t>(t);
    }
  }
}

/// The expert of a choice: a slot is a place among `capacity` of each expert, or -1 - expert if
/// that was full; without a capacity, a place behind those of the experts before, of which `counts`
/// says how many there are.
inline int64_t expert_of(std::int32_t slot, int64_t experts, int64_t capacity,
                         const std::int32_t* counts) {
  int64_t e = 0;
  if (capacity > 0) {
    e = slot < 0 ? -1 - int64_t{slot} : slot / capacity;
  } else {
    for (int64_t end = counts[0]; slot >= end && e < experts - 1;) end += counts[++e];
  }
  return e < experts ? e : experts - 1;
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
  std::int32_t* const counts = output<std::int32_t>(args, 4);
  if (capacity == 0) return pack_choices(tokens, experts, choices, slots, sources, counts);
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
  const std::int32_t* const counts = input<std::int32_t>(args, 1);
  T* const load = output<T>(args, 0);
  for (int64_t e = 0; e < experts && !args.accumulate; ++e) load[e] = 0;
  for (int64_t e = 0; e < experts && counts != nullptr; ++e) load[e] += static_cast<T>(counts[e]);
  for (int64_t i = 0; i < tokens * choices && counts == nullptr; ++i) {
    load[expert_of(slots[i], experts, capacity, counts)] += 1;
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
  const std::int32_t* const counts = input<std::int32_t>(args, 4);
  const auto expert = [=](std::int32_t slot) { return expert_of(slot, experts, capacity, counts); };
  T* const load_terms =
      static_cast<T*>(scratch(Scratch::Rows, static_cast<std::size_t>(experts) * sizeof(T)));
  for (int64_t e = 0; e < experts; ++e) load_terms[e] = 0;
  for (int64_t i = 0; i < tokens * choices; ++i) load_terms[expert(slots[i])] += 1;
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
        const T chosen = p[expert(slot[c])];
        sum += chosen;
        along += dgates[c] * chosen;
      }
      for (int64_t c = 0; c < choices; ++c) {
        d[expert(slot[c])] += choices > 1 ? (dgates[c] - along / sum) / sum : dgates[c];
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
