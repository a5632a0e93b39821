// Activations, rotary embedding, addition, regrouping, fill: one thread per pack of
// elements.
#include <numeric>

#include "backends/cuda/kernels/map.hpp"
#include "core/base/dropout.hpp"
#include "core/base/rope.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

/// The argument 2 u of the sigmoid in gelu(x) = x sigmoid(2 u), where u = sqrt(2/pi) (x + 0.044715
/// x^3). It equals 0.5 x (1 + tanh u), without the cancellation of that for negative x.
template <class A>
__device__ __forceinline__ A gelu_argument(A x) {
  return A(1.5957691216057307117597842397375) * (x + A(0.044715) * x * x * x);
}

/// A function of one element, and its slope.
template <class A>
struct ValueAndSlope {
  A value, slope;
};

template <class A>
struct Gelu {
  static __device__ __forceinline__ A value(A x) {
    return x / (1 + exponential(-gelu_argument(x)));
  }
  static __device__ __forceinline__ ValueAndSlope<A> both(A x) {
    const A e = exponential(-gelu_argument(x));
    const A s = 1 / (1 + e);
    // e s is 1 - s without cancellation. Where e overflows, s is 0 and 1 - s is 1.
    const A one_less_s = s > 0 ? e * s : A(1);
    const A slope = A(1.5957691216057307117597842397375) * (1 + A(3 * 0.044715) * x * x);
    return {x * s, s + x * s * one_less_s * slope};
  }
};

/// x sigmoid(x), the gate of SwiGLU.
template <class A>
struct Silu {
  static __device__ __forceinline__ A value(A x) { return x / (1 + exponential(-x)); }
  static __device__ __forceinline__ ValueAndSlope<A> both(A x) {
    const A e = exponential(-x);
    const A s = 1 / (1 + e);
    const A one_less_s = s > 0 ? e * s : A(1);
    return {x * s, s * (1 + x * one_less_s)};
  }
};

/// Its slope is the same at x and at relu(x).
template <class A>
struct Relu {
  static __device__ __forceinline__ A value(A x) { return x > 0 ? x : A(0); }
  static __device__ __forceinline__ ValueAndSlope<A> both(A x) {
    return {value(x), x > 0 ? A(1) : A(0)};
  }
};

template <class A>
struct SquaredRelu {
  static __device__ __forceinline__ A value(A x) { return x > 0 ? x * x : A(0); }
  static __device__ __forceinline__ ValueAndSlope<A> both(A x) {
    return {value(x), x > 0 ? 2 * x : A(0)};
  }
};

/// y = f(x)
template <class T, template <class> class F>
struct FunctionForward {
  const T* x;
  T* y;
  template <int N>
  __device__ void at(int64_t i) const {
    auto v = load<N>(x + i);
    for (int j = 0; j < N; ++j) v[j] = F<Acc<T>>::value(v[j]);
    store<N>(y + i, v);
  }
};

/// dx = dy f'(x)
template <class T, template <class> class F>
struct FunctionBackward {
  const T *dy, *x;
  T* dx;
  template <int N>
  __device__ void at(int64_t i) const {
    const auto v = load<N>(x + i);
    auto d = load<N>(dy + i);
    for (int j = 0; j < N; ++j) d[j] *= F<Acc<T>>::both(v[j]).slope;
    store<N>(dx + i, d);
  }
};

/// y = cap tanh(x / cap)
template <class T>
struct SoftcapForward {
  const T* x;
  T* y;
  Acc<T> cap;
  template <int N>
  __device__ void at(int64_t i) const {
    auto v = load<N>(x + i);
    for (int j = 0; j < N; ++j) v[j] = cap * hyperbolic_tangent(v[j] / cap);
    store<N>(y + i, v);
  }
};

template <class T>
struct SoftcapBackward {
  const T *dy, *x;
  T* dx;
  Acc<T> cap;
  template <int N>
  __device__ void at(int64_t i) const {
    const auto v = load<N>(x + i);
    auto d = load<N>(dy + i);
    for (int j = 0; j < N; ++j) {
      // 1 - tanh²(u) = 4 e / (1 + e)² with e = exp(-2 |u|), without cancellation where tanh is
      // near 1.
      const Acc<T> u = v[j] / cap, e = exponential(-2 * (u < 0 ? -u : u));
      d[j] *= 4 * e / ((1 + e) * (1 + e));
    }
    store<N>(dx + i, d);
  }
};

/// y = f(gate) up. Index i counts elements of y. A row of x holds the gate and then the other
/// factor.
template <class T, template <class> class F>
struct GatedForward {
  const T* x;
  T* y;
  int64_t cols;
  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t gate = i + i / cols * cols;
    auto g = load<N>(x + gate);
    const auto u = load<N>(x + gate + cols);
    for (int j = 0; j < N; ++j) g[j] = F<Acc<T>>::value(g[j]) * u[j];
    store<N>(y + i, g);
  }
};

template <class T, template <class> class F>
struct GatedBackward {
  const T *dy, *x;
  T* dx;
  int64_t cols;
  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t gate = i + i / cols * cols;
    auto g = load<N>(x + gate), u = load<N>(x + gate + cols);
    const auto d = load<N>(dy + i);
    for (int j = 0; j < N; ++j) {
      const auto of_gate = F<Acc<T>>::both(g[j]);
      g[j] = d[j] * u[j] * of_gate.slope;
      u[j] = d[j] * of_gate.value;
    }
    store<N>(dx + gate, g);
    store<N>(dx + gate + cols, u);
  }
};

template <class T>
struct Scale {
  const T* x;
  T* y;
  Acc<T> factor;
  template <int N>
  __device__ void at(int64_t i) const {
    auto v = load<N>(x + i);
    for (int j = 0; j < N; ++j) v[j] = factor * v[j];
    store<N>(y + i, v);
  }
};

/// y = x + resid + bias, with the same bias for every row; null stands for none.
template <class T>
struct AddRows {
  const T *x, *resid, *bias;
  T* y;
  int64_t cols;
  template <int N>
  __device__ void at(int64_t i) const {
    auto v = load<N>(x + i);
    if (bias != nullptr) {
      const auto b = load<N>(bias + i % cols);
      for (int j = 0; j < N; ++j) v[j] += b[j];
    }
    if (resid != nullptr) {
      const auto r = load<N>(resid + i);
      for (int j = 0; j < N; ++j) v[j] += r[j];
    }
    store<N>(y + i, v);
  }
};

/// y = resid + kept (x + bias) / (1 - share). Index i counts elements of y; a pack lies in one row.
template <class T>
struct Dropout {
  const T* x;
  const std::int32_t* keys;
  const T *resid, *bias;
  const std::int32_t* part;  // of the columns; null: these are all
  T* y;
  int64_t cols;
  std::uint32_t below;
  Acc<T> kept;
  int layer, place;
  template <int N>
  __device__ void at(int64_t i) const {
    using A = Acc<T>;
    const int64_t col = i % cols;
    auto v = load<N>(x + i);
    if (bias != nullptr) {
      const auto b = load<N>(bias + col);
      for (int j = 0; j < N; ++j) v[j] += b[j];
    }
    const std::int32_t key = keys[i / cols];
    if (key >= 0) {
      const DropoutRow row(key, layer, place);
      const int64_t first = part != nullptr ? *part * cols + col : col;
      for (int j = 0; j < N; ++j) {
        v[j] *= row.bits(static_cast<std::uint32_t>(first + j)) < below ? A(0) : kept;
      }
    }
    if (resid != nullptr) {
      const auto r = load<N>(resid + i);
      for (int j = 0; j < N; ++j) v[j] += r[j];
    }
    store<N>(y + i, v);
  }
};

/// Index i counts elements of y.
template <class T>
struct Regroup {
  const T* from;
  T* to;
  int64_t rows, parts, a, b, c, skip;
  bool inverse;
  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t cols = a + b + c, row = i / cols % rows, part = i / cols / rows, col = i % cols;
    const int64_t section = col < a ? 0 : col < a + b ? a : a + b;
    const int64_t width = col < a ? a : col < a + b ? b : c;
    const int64_t x =
        row * skip + skip + (row * cols + section) * parts + part * width + col - section;
    store<N>(to + (inverse ? x : i), load<N>(from + (inverse ? i : x)));
  }
};

/// Rows of `a` and of `b` columns side by side; `join`: from x and z into y, otherwise back. Index
/// i counts elements of y.
template <class T>
struct Columns {
  T *x, *z, *y;
  int64_t a, b;
  bool join;
  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t row = i / (a + b), col = i % (a + b);
    T* const beside = col < a ? x + row * a + col : z + row * b + col - a;
    store<N>(join ? y + i : beside, load<N>(join ? beside : y + i));
  }
};

template <class T>
struct Fill {
  T* y;
  Acc<T> value;
  template <int N>
  __device__ void at(int64_t i) const {
    Values<Acc<T>, N> v;
    for (int j = 0; j < N; ++j) v[j] = value;
    store<N>(y + i, v);
  }
};

/// Computes cosines and sines [2, seq, half] of the angle of every position and pair of a head.
/// `starts` says where in the sequence the two halves of the tokens start; null if the tokens are
/// the first of the sequence.
template <class A>
__global__ void rope_angles(A* turns, const std::int32_t* starts, int64_t seq, int64_t half,
                            double theta, double slowing, double longest, double shortest,
                            double sign) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= seq * half) return;
  const int64_t s = at / half, i = at % half;
  const int64_t position = starts == nullptr ? s : starts[s / (seq / 2)] + s % (seq / 2);
  const double angle =
      static_cast<double>(position) * rope_frequency(i, half, theta, slowing, longest, shortest);
  turns[at] = static_cast<A>(cos(angle));
  turns[seq * half + at] = static_cast<A>(sign * sin(angle));
}

/// Index i counts the pairs that are rotated. A head has `skip` elements before them, and `stride`
/// in all.
template <class T>
struct Rope {
  T* x;
  const Acc<T>* turns;
  int64_t seq, heads, half, row_heads, skip, stride;
  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t head = i / half, pair = i % half, token = head / heads;
    T* const low = x + (token * row_heads + head % heads) * stride + skip + pair;
    const Acc<T>* const turn = turns + token % seq * half + pair;
    const auto c = load_words<N, Acc<T>>(turn), d = load_words<N, Acc<T>>(turn + seq * half);
    auto l = load<N>(low), u = load<N>(low + half);
    for (int j = 0; j < N; ++j) {
      const Acc<T> own = l[j];
      l[j] = own * c[j] - u[j] * d[j];
      u[j] = u[j] * c[j] + own * d[j];
    }
    store<N>(low, l);
    store<N>(low + half, u);
  }
};

template <template <class> class F>
void function_forward(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const FunctionForward<T, F> f{input<T>(call, 0), output<T>(call, 0)};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {call.in[0], call.out[0]}, [&](auto w) { launch_map<w.kValue>(queue, f, n); });
  });
}

template <template <class> class F>
void function_backward(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const FunctionBackward<T, F> f{input<T>(call, 0), input<T>(call, 1), output<T>(call, 0)};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {call.in[0], call.in[1], call.out[0]},
                 [&](auto w) { launch_map<w.kValue>(queue, f, n); });
  });
}

void softcap_forward(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const SoftcapForward<T> f{input<T>(call, 0), output<T>(call, 0),
                              static_cast<Acc<T>>(call.kernel->scalars[0])};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {call.in[0], call.out[0]}, [&](auto w) { launch_map<w.kValue>(queue, f, n); });
  });
}

void softcap_backward(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const SoftcapBackward<T> f{input<T>(call, 0), input<T>(call, 1), output<T>(call, 0),
                               static_cast<Acc<T>>(call.kernel->scalars[0])};
    const int64_t n = call.kernel->dims[0];
    for_width<T>(n, {call.in[0], call.in[1], call.out[0]},
                 [&](auto w) { launch_map<w.kValue>(queue, f, n); });
  });
}

template <template <class> class F>
void gated_forward(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
    const GatedForward<T, F> f{input<T>(call, 0), output<T>(call, 0), cols};
    for_width<T>(cols, {call.in[0], call.out[0]},
                 [&](auto w) { launch_map<w.kValue>(queue, f, rows * cols); });
  });
}

template <template <class> class F>
void gated_backward(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
    const GatedBackward<T, F> f{input<T>(call, 0), input<T>(call, 1), output<T>(call, 0), cols};
    for_width<T>(cols, {call.in[0], call.in[1], call.out[0]},
                 [&](auto w) { launch_map<w.kValue>(queue, f, rows * cols); });
  });
}

void add_rows(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
    const AddRows<T> f{input<T>(call, 0), input<T>(call, 1), input<T>(call, 2), output<T>(call, 0),
                       cols};
    for_width<T>(cols, {f.x, f.resid, f.bias, f.y},
                 [&](auto w) { launch_map<w.kValue>(queue, f, rows * cols); });
  });
}

void dropout(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const int64_t rows = call.kernel->dims[0], cols = call.kernel->dims[1];
    const auto& scalars = call.kernel->scalars;
    const Dropout<T> f{input<T>(call, 0),
                       input<std::int32_t>(call, 1),
                       input<T>(call, 2),
                       input<T>(call, 3),
                       input<std::int32_t>(call, 4),
                       output<T>(call, 0),
                       cols,
                       dropped_below(scalars[0]),
                       static_cast<Acc<T>>(1 / (1 - scalars[0])),
                       call.context.layer,
                       static_cast<int>(scalars[1])};
    for_width<T>(cols, {f.x, f.resid, f.bias, f.y},
                 [&](auto w) { launch_map<w.kValue>(queue, f, rows * cols); });
  });
}

void scale(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const int64_t n = call.kernel->dims[0];
    const Scale<T> f{input<T>(call, 0), output<T>(call, 0),
                     static_cast<Acc<T>>(call.kernel->scalars[0])};
    for_width<T>(n, {call.in[0], call.out[0]}, [&](auto w) { launch_map<w.kValue>(queue, f, n); });
  });
}

void regroup(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const auto& d = call.kernel->dims;
    const Regroup<T> f{input<T>(call, 0), output<T>(call, 0), d[0], d[1], d[2], d[3], d[4], d[6],
                       d[5] != 0};
    // Packs must not cross the border of a section.
    const int64_t unit = std::gcd(std::gcd(d[2], d[6]), std::gcd(d[3], d[4]));
    for_width<T>(unit, {call.in[0], call.out[0]}, [&](auto w) {
      launch_map<w.kValue>(queue, f, d[0] * d[1] * (d[2] + d[3] + d[4]));
    });
  });
}

void columns(const KernelCall& call, Queue& queue, bool join) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const auto& d = call.kernel->dims;
    T* const x = join ? input<T>(call, 0) : output<T>(call, 0);
    T* const z = join ? input<T>(call, 1) : output<T>(call, 1);
    T* const y = join ? output<T>(call, 0) : input<T>(call, 0);
    const Columns<T> f{x, z, y, d[1], d[2], join};
    // Packs must not cross the border between the two tensors.
    for_width<T>(std::gcd(d[1], d[2]), {x, z, y},
                 [&](auto w) { launch_map<w.kValue>(queue, f, d[0] * (d[1] + d[2])); });
  });
}

void join_columns(const KernelCall& call, Queue& queue) { columns(call, queue, true); }

void part_columns(const KernelCall& call, Queue& queue) { columns(call, queue, false); }

void fill(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const int64_t n = call.kernel->dims[0];
    const Fill<T> f{output<T>(call, 0), static_cast<Acc<T>>(call.kernel->scalars[0])};
    for_width<T>(n, {call.out[0]}, [&](auto w) { launch_map<w.kValue>(queue, f, n); });
  });
}

void rotate(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    const auto& d = call.kernel->dims;
    const auto& scalars = call.kernel->scalars;
    const int64_t half = d[3] / 2;
    auto* const turns = reinterpret_cast<Acc<T>*>(call.scratch);
    queue.launch({blocks_of(d[1] * half, kThreads)}, {kThreads}, 0, rope_angles<Acc<T>>, turns,
                 input<std::int32_t>(call, 1), d[1], half, scalars[0], scalars[1], scalars[2],
                 scalars[3], d[5] != 0 ? -1.0 : 1.0);
    const Rope<T> f{output<T>(call, 0), turns, d[1], d[2], half, d[4], d[6], d[6] + d[3] + d[7]};
    for_width<T>(std::gcd(std::gcd(half, d[6]), d[7]), {f.x},
                 [&](auto w) { launch_map<w.kValue>(queue, f, d[0] * d[1] * d[2] * half); });
  });
}

std::int64_t turns(const Kernel& kernel) {
  return kernel.dims[1] * kernel.dims[3] * (kernel.dtype == DType::F64 ? 8 : 4);
}

}  // namespace

void add_elementwise(Registry& rows) {
  rows[KernelKind::GeluForward] = {function_forward<Gelu>};
  rows[KernelKind::GeluBackward] = {function_backward<Gelu>};
  rows[KernelKind::ReluForward] = {function_forward<Relu>};
  rows[KernelKind::ReluBackward] = {function_backward<Relu>};
  rows[KernelKind::SquaredReluForward] = {function_forward<SquaredRelu>};
  rows[KernelKind::SquaredReluBackward] = {function_backward<SquaredRelu>};
  rows[KernelKind::SoftcapForward] = {softcap_forward};
  rows[KernelKind::SoftcapBackward] = {softcap_backward};
  rows[KernelKind::SwigluForward] = {gated_forward<Silu>};
  rows[KernelKind::SwigluBackward] = {gated_backward<Silu>};
  rows[KernelKind::GegluForward] = {gated_forward<Gelu>};
  rows[KernelKind::GegluBackward] = {gated_backward<Gelu>};
  rows[KernelKind::Add] = {add_rows};
  rows[KernelKind::Dropout] = {dropout};
  rows[KernelKind::Scale] = {scale};
  rows[KernelKind::Regroup] = {regroup};
  rows[KernelKind::JoinColumns] = {join_columns};
  rows[KernelKind::PartColumns] = {part_columns};
  rows[KernelKind::Fill] = {fill};
  rows[KernelKind::Rope] = {rotate, turns};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
