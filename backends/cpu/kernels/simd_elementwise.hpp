// Activations, rotary embedding, AdamW, SGD and fill. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_math.hpp"
#include "core/base/dropout.hpp"
#include "core/base/rope.hpp"

namespace lockstep::cpu {
namespace {

inline constexpr int64_t kElementGrain = 16384;  // a multiple of every vector width

/// A function of one element, and its slope.
template <class T>
struct ValueAndSlope {
  Vec<T> value, slope;
};

/// gelu(x) = x sigmoid(2 u), where u = sqrt(2/pi) (x + 0.044715 x^3). It equals 0.5 x (1 + tanh u),
/// without the cancellation of that for negative x.
template <class T>
struct Gelu {
  static constexpr T kScale = T(1.5957691216057307117597842397375);  // 2 sqrt(2/pi)
  static constexpr T kCubic = T(0.044715);
  static Vec<T> value(Vec<T> x) { return x * sigmoid<T>(kScale * (x + kCubic * (x * x * x))); }
  static ValueAndSlope<T> both(Vec<T> x) {
    const Vec<T> square = x * x;
    const Vec<T> e = exponential(-kScale * (x + kCubic * (square * x)));
    const Vec<T> s = T(1) / (T(1) + e);
    const Vec<T> one_less_s = e * s;  // 1 - s without cancellation
    const Vec<T> slope = kScale * (T(1) + T(3) * kCubic * square);
    return {x * s, s + x * s * one_less_s * slope};
  }
};

/// silu(x) = x sigmoid(x), the gate of SwiGLU.
template <class T>
struct Silu {
  static Vec<T> value(Vec<T> x) { return x * sigmoid<T>(x); }
  static ValueAndSlope<T> both(Vec<T> x) {
    const Vec<T> e = exponential(-x);
    const Vec<T> s = T(1) / (T(1) + e);
    return {x * s, s * (T(1) + x * (e * s))};
  }
};

template <class T>
struct SquaredRelu {
  static Vec<T> value(Vec<T> x) {
    const Vec<T> kept = max<T>(x, Vec<T>{});
    return kept * kept;
  }
  static ValueAndSlope<T> both(Vec<T> x) { return {value(x), T(2) * max<T>(x, Vec<T>{})}; }
};

/// y = f(x)
template <class T, class F>
void run_function_forward(const KernelArgs& args) {
  const T* const x = input<T>(args, 0);
  T* const y = output<T>(args, 0);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end,
                   [&](int64_t i, auto n) { store(y + i, F::value(load(x + i, n)), n); });
  });
}

/// dx = dy f'(x)
template <class T, class F>
void run_function_backward(const KernelArgs& args) {
  const T* const dy = input<T>(args, 0);
  const T* const x = input<T>(args, 1);
  T* const dx = output<T>(args, 0);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      store(dx + i, load(dy + i, n) * F::both(load(x + i, n)).slope, n);
    });
  });
}

/// y = cap tanh(x / cap)
template <class T>
void run_softcap_forward(const KernelArgs& args) {
  const T* const x = input<T>(args, 0);
  T* const y = output<T>(args, 0);
  const T cap = static_cast<T>(args.scalars[0]), factor = 1 / cap;
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      store(y + i, cap * hyperbolic_tangent<T>(load(x + i, n) * factor), n);
    });
  });
}

template <class T>
void run_softcap_backward(const KernelArgs& args) {
  const T* const dy = input<T>(args, 0);
  const T* const x = input<T>(args, 1);
  T* const dx = output<T>(args, 0);
  const T factor = static_cast<T>(1 / args.scalars[0]);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      // 1 - tanh²(u) = 4 e / (1 + e)² with e = exp(-2 |u|), without cancellation where tanh is
      // near 1.
      const Vec<T> u = load(x + i, n) * factor;
      const Vec<T> e = exponential(T(-2) * max<T>(u, -u));
      store(dx + i, load(dy + i, n) * (T(4) * e / ((T(1) + e) * (T(1) + e))), n);
    });
  });
}

/// y [rows, cols] = f(x[:, :cols]) x[:, cols:]
template <class T, class F>
void run_gated_forward(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const gate = input<T>(args, 0) + r * 2 * cols;
      const T* const up = gate + cols;
      T* const y = output<T>(args, 0) + r * cols;
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        store(y + i, F::value(load(gate + i, n)) * load(up + i, n), n);
      });
    }
  });
}

template <class T, class F>
void run_gated_backward(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const dy = input<T>(args, 0) + r * cols;
      const T* const gate = input<T>(args, 1) + r * 2 * cols;
      const T* const up = gate + cols;
      T* const d_gate = output<T>(args, 0) + r * 2 * cols;
      T* const d_up = d_gate + cols;
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        const ValueAndSlope<T> of_gate = F::both(load(gate + i, n));
        const Vec<T> d = load(dy + i, n), u = load(up + i, n);
        store(d_gate + i, d * u * of_gate.slope, n);
        store(d_up + i, d * of_gate.value, n);
      });
    }
  });
}

template <class T>
void run_add(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const T* const all = input<T>(args, 1);
  const T* const bias = input<T>(args, 2);
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const x = input<T>(args, 0) + r * cols;
      const T* const residual = all ? all + r * cols : nullptr;
      T* const y = output<T>(args, 0) + r * cols;
      for_vectors<T>(0, cols, [&](int64_t i, auto n) {
        Vec<T> v = load(x + i, n);
        if (bias) v += load(bias + i, n);
        if (residual) v += load(residual + i, n);
        store(y + i, v, n);
      });
    }
  });
}

template <class T>
void run_dropout(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  const auto* const keys = reinterpret_cast<const int32_t*>(args.in[1]);
  const T* const residuals = input<T>(args, 2);
  const T* const bias = input<T>(args, 3);
  const auto* const part = reinterpret_cast<const int32_t*>(args.in[4]);
  const auto first = static_cast<uint32_t>(part ? *part * cols : 0);  // column of the whole
  const uint32_t below = dropped_below(args.scalars[0]);
  const T kept = static_cast<T>(1 / (1 - args.scalars[0]));
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const x = input<T>(args, 0) + r * cols;
      T* const y = output<T>(args, 0) + r * cols;
      const T* const residual = residuals ? residuals + r * cols : nullptr;
      const auto row = [&](auto&& factor) {
        // The compiler makes vectors of these loops, one for each choice of what is there.
        const auto each = [&](auto&& more) {
          if (residual) {
            for (int64_t i = 0; i < cols; ++i) y[i] = (x[i] + more(i)) * factor(i) + residual[i];
          } else {
            for (int64_t i = 0; i < cols; ++i) y[i] = (x[i] + more(i)) * factor(i);
          }
        };
        bias ? each([&](int64_t i) { return bias[i]; }) : each([](int64_t) { return T(0); });
      };
      if (keys[r] < 0) {
        row([](int64_t) { return T(1); });
      } else {
        const DropoutRow bits(keys[r], args.layer, static_cast<int>(args.scalars[1]));
        row([&](int64_t i) {
          return bits.bits(first + static_cast<uint32_t>(i)) < below ? T(0) : kept;
        });
      }
    }
  });
}

template <class T>
void run_scale(const KernelArgs& args) {
  const T* const x = input<T>(args, 0);
  T* const y = output<T>(args, 0);
  const T factor = static_cast<T>(args.scalars[0]);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end,
                   [&](int64_t i, auto n) { store(y + i, factor * load(x + i, n), n); });
  });
}

template <class T>
void run_rope(const KernelArgs& args) {
  const int64_t batch = args.dims[0], seq = args.dims[1], heads = args.dims[2];
  const int64_t head_dim = args.dims[3], row_heads = args.dims[4], half = head_dim / 2;
  const double sign = args.dims[5] != 0 ? -1.0 : 1.0;
  const int64_t skip = args.dims[6], stride = skip + head_dim + args.dims[7];
  T* const x = output<T>(args, 0) + skip;
  const std::int32_t* const starts = input<std::int32_t>(args, 1);
  // The team splits positions, so that sines are computed once for all batches and heads.
  parallel(*args.team, seq, 8, [&](int64_t begin, int64_t end) {
    T* const cosine = static_cast<T*>(
        scratch(Scratch::Rows, static_cast<std::size_t>(3 * half) * sizeof(double)));
    T* const sine = cosine + half;
    double* const frequency = reinterpret_cast<double*>(cosine) + 2 * half;
    for (int64_t i = 0; i < half; ++i) {
      frequency[i] = rope_frequency(i, half, args.scalars[0], args.scalars[1], args.scalars[2],
                                    args.scalars[3]);
    }
    for (int64_t s = begin; s < end; ++s) {
      const int64_t position = starts ? starts[s / (seq / 2)] + s % (seq / 2) : s;
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position) * frequency[i];
        cosine[i] = static_cast<T>(__builtin_cos(angle));
        sine[i] = static_cast<T>(sign * __builtin_sin(angle));
      }
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t h = 0; h < heads; ++h) {
          T* const low = x + ((b * seq + s) * row_heads + h) * stride;
          T* const high = low + half;
          for_vectors<T>(0, half, [&](int64_t i, auto n) {
            const Vec<T> l = load(low + i, n), u = load(high + i, n);
            const Vec<T> c = load(cosine + i, n), d = load(sine + i, n);
            store(low + i, l * c - u * d, n);
            store(high + i, u * c + l * d, n);
          });
        }
      }
    }
  });
}

/// PyTorch's AdamW (torch/optim/adamw.py, single tensor): decay first, then the step. If `coupled`,
/// its Adam (adam.py): the decay is added to the gradient.
template <class T, bool coupled>
void run_adamw(const KernelArgs& args) {
  const double beta1 = args.scalars[0], beta2 = args.scalars[1];
  const double t = static_cast<double>(args.step + 1);
  const T keep_weight = coupled ? T(1) : static_cast<T>(1 - args.lr * args.scalars[3]);
  const T decay = coupled ? static_cast<T>(args.scalars[3]) : T(0);
  const T step_size = static_cast<T>(args.lr / (1 - __builtin_pow(beta1, t)));
  const T inverse_root = static_cast<T>(1 / __builtin_sqrt(1 - __builtin_pow(beta2, t)));
  const T eps = static_cast<T>(args.scalars[2]);
  const T b1 = static_cast<T>(beta1), c1 = static_cast<T>(1 - beta1);
  const T b2 = static_cast<T>(beta2), c2 = static_cast<T>(1 - beta2);
  const T coef = static_cast<T>(read_factor(args, 1));
  if (coef < 0) return;  // a gradient is not finite
  const T* const grad = input<T>(args, 0);
  T* const weight = output<T>(args, 0);
  T* const first = output<T>(args, 1);
  T* const second = output<T>(args, 2);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      const Vec<T> w = load(weight + i, n);
      Vec<T> g = load(grad + i, n) * coef;
      if constexpr (coupled) g += decay * w;
      const Vec<T> m = b1 * load(first + i, n) + c1 * g;
      const Vec<T> v = b2 * load(second + i, n) + c2 * (g * g);
      const Vec<T> denominator = square_root(v) * inverse_root + eps;
      store(first + i, m, n);
      store(second + i, v, n);
      store(weight + i, w * keep_weight - step_size * (m / denominator), n);
    });
  });
}

/// Lion (Chen et al. 2023, algorithm 2).
template <class T>
void run_lion(const KernelArgs& args) {
  const double beta1 = args.scalars[0], beta2 = args.scalars[1];
  const T b1 = static_cast<T>(beta1), c1 = static_cast<T>(1 - beta1);
  const T b2 = static_cast<T>(beta2), c2 = static_cast<T>(1 - beta2);
  const T lr = static_cast<T>(args.lr), keep = static_cast<T>(1 - args.lr * args.scalars[2]);
  const T coef = static_cast<T>(read_factor(args, 1));
  if (coef < 0) return;  // a gradient is not finite
  const T* const grad = input<T>(args, 0);
  T* const weight = output<T>(args, 0);
  T* const first = output<T>(args, 1);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      const Vec<T> g = load(grad + i, n) * coef, m = load(first + i, n);
      const Vec<T> mix = b1 * m + c1 * g;
      const Vec<T> sign = mix > T(0) ? Vec<T>{} + T(1) : mix < T(0) ? Vec<T>{} - T(1) : Vec<T>{};
      store(first + i, b2 * m + c2 * g, n);
      store(weight + i, load(weight + i, n) * keep - lr * sign, n);
    });
  });
}

/// PyTorch's SGD with momentum (torch/optim/sgd.py, without dampening). The decay is added to the
/// gradient. In PyTorch, the first momentum is the gradient itself; a buffer of zeros gives the
/// same.
template <class T>
void run_sgd(const KernelArgs& args) {
  const T momentum = static_cast<T>(args.scalars[0]), decay = static_cast<T>(args.scalars[1]);
  const T lr = static_cast<T>(args.lr);
  const T coef = static_cast<T>(read_factor(args, 1));
  if (coef < 0) return;  // a gradient is not finite
  const T* const grad = input<T>(args, 0);
  T* const weight = output<T>(args, 0);
  T* const velocity = output<T>(args, 1);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      const Vec<T> w = load(weight + i, n);
      const Vec<T> v = momentum * load(velocity + i, n) + (load(grad + i, n) * coef + decay * w);
      store(velocity + i, v, n);
      store(weight + i, w - lr * v, n);
    });
  });
}

/// The momentum of Muon, and the direction that is orthogonalized.
template <class T>
void run_momentum(const KernelArgs& args) {
  const T momentum = static_cast<T>(args.scalars[0]);
  const bool nesterov = args.scalars[1] != 0;
  const T coef = static_cast<T>(read_factor(args, 1));
  const T* const grad = input<T>(args, 0);
  T* const first = output<T>(args, 0);
  T* const direction = output<T>(args, 1);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      if (coef < 0) return store(direction + i, Vec<T>{}, n);  // a gradient is not finite
      const Vec<T> g = load(grad + i, n) * coef;
      const Vec<T> m = momentum * load(first + i, n) + g;
      store(first + i, m, n);
      store(direction + i, nesterov ? g + momentum * m : m, n);
    });
  });
}

template <class T>
void run_normalize(const KernelArgs& args) {
  const double norm = __builtin_sqrt(read_factor(args, 1));
  const T factor = static_cast<T>(1 / (norm + args.scalars[0]));
  const T* const x = input<T>(args, 0);
  T* const y = output<T>(args, 0);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end,
                   [&](int64_t i, auto n) { store(y + i, load(x + i, n) * factor, n); });
  });
}

/// A replica's term of the mean over replicas.
template <class T>
void run_replica_term(const KernelArgs& args) {
  const T factor = static_cast<T>(args.scalars[0]);
  const T* const weight = input<T>(args, 0);
  const T* const from = input<T>(args, 1);
  T* const term = output<T>(args, 0);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      const Vec<T> w = load(weight + i, n);
      store(term + i, factor * (from != nullptr ? load(from + i, n) - w : w), n);
    });
  });
}

/// torch.optim.SGD's step by the way of all replicas.
template <class T>
void run_outer_sgd(const KernelArgs& args) {
  const T lr = static_cast<T>(args.scalars[0]), momentum = static_cast<T>(args.scalars[1]);
  const bool nesterov = args.scalars[2] != 0;
  const T* const way = input<T>(args, 0);
  T* const weight = output<T>(args, 0);
  T* const first = output<T>(args, 1);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      const Vec<T> d = load(way + i, n);
      const Vec<T> m = momentum * load(first + i, n) + d;
      store(first + i, m, n);
      store(weight + i, load(weight + i, n) - lr * (nesterov ? d + momentum * m : m), n);
    });
  });
}

/// torch.optim.Muon's step by what Newton-Schulz has made, with decoupled decay.
template <class T>
void run_muon(const KernelArgs& args) {
  const double lr = args.lr * args.scalars[0];
  const T keep_weight = static_cast<T>(1 - lr * args.scalars[1]), step_size = static_cast<T>(lr);
  if (read_factor(args, 1) < 0) return;  // a gradient is not finite
  const T* const direction = input<T>(args, 0);
  T* const weight = output<T>(args, 0);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      store(weight + i, load(weight + i, n) * keep_weight - step_size * load(direction + i, n), n);
    });
  });
}

template <class T>
void run_relu_forward(const KernelArgs& args) {
  const T* const x = input<T>(args, 0);
  T* const y = output<T>(args, 0);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end,
                   [&](int64_t i, auto n) { store(y + i, max<T>(load(x + i, n), Vec<T>{}), n); });
  });
}

template <class T>
void run_relu_backward(const KernelArgs& args) {
  const T* const dy = input<T>(args, 0);
  const T* const y = input<T>(args, 1);
  T* const dx = output<T>(args, 0);
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) {
      const Vec<T> zero{};
      store(dx + i, load(y + i, n) > zero ? load(dy + i, n) : zero, n);
    });
  });
}

/// Copies one stretch of a section of a row at a time.
template <class T>
void run_regroup(const KernelArgs& args) {
  const int64_t rows = args.dims[0], parts = args.dims[1];
  const int64_t widths[] = {args.dims[2], args.dims[3], args.dims[4]};
  const int64_t cols = widths[0] + widths[1] + widths[2];
  const bool inverse = args.dims[5] != 0;
  const int64_t skip = args.dims[6];
  const T* const from = input<T>(args, 0);
  T* const to = output<T>(args, 0);
  parallel(*args.team, parts * rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i / rows, row = i % rows;
      int64_t section = row * (skip + parts * cols) + skip, at = i * cols;
      for (const int64_t width : widths) {
        const int64_t x = section + part * width;
        __builtin_memcpy(to + (inverse ? x : at), from + (inverse ? at : x),
                         static_cast<std::size_t>(width) * sizeof(T));
        section += parts * width;
        at += width;
      }
    }
  });
}

template <class T>
void run_join_columns(const KernelArgs& args) {
  const int64_t a = args.dims[1], b = args.dims[2];
  const T* const x = input<T>(args, 0);
  const T* const z = input<T>(args, 1);
  T* const y = output<T>(args, 0);
  parallel(*args.team, args.dims[0], row_grain(a + b), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* const to = y + row * (a + b);
      __builtin_memcpy(to, x + row * a, static_cast<std::size_t>(a) * sizeof(T));
      __builtin_memcpy(to + a, z + row * b, static_cast<std::size_t>(b) * sizeof(T));
    }
  });
}

template <class T>
void run_part_columns(const KernelArgs& args) {
  const int64_t a = args.dims[1], b = args.dims[2];
  const T* const y = input<T>(args, 0);
  T* const x = output<T>(args, 0);
  T* const z = output<T>(args, 1);
  parallel(*args.team, args.dims[0], row_grain(a + b), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const from = y + row * (a + b);
      __builtin_memcpy(x + row * a, from, static_cast<std::size_t>(a) * sizeof(T));
      __builtin_memcpy(z + row * b, from + a, static_cast<std::size_t>(b) * sizeof(T));
    }
  });
}

template <class T>
void run_fill(const KernelArgs& args) {
  T* const y = output<T>(args, 0);
  const Vec<T> value = splat(static_cast<T>(args.scalars[0]));
  parallel(*args.team, args.dims[0], kElementGrain, [&](int64_t begin, int64_t end) {
    for_vectors<T>(begin, end, [&](int64_t i, auto n) { store(y + i, value, n); });
  });
}

}  // namespace
}  // namespace lockstep::cpu
