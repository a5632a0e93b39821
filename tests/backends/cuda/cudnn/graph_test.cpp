#include <cmath>
#include <random>

#include "tests/backends/cuda/cudnn/graph_computer.hpp"
#include "tests/backends/cuda/cudnn/kernels.hpp"
#include "tests/catch.hpp"

using namespace lockstep;
using cuda::cudnn::Graph;
using cuda::cudnn::graph_of;
using cuda::cudnn::Tensor;
using test::attention;
using test::AttentionShape;
using test::convolution;
using test::ConvolutionShape;
using test::Operands;

namespace {

std::vector<double> random_values(std::int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(static_cast<std::size_t>(n));
  for (double& x : values) x = uniform(generator);
  return values;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    worst = std::isnan(d) ? HUGE_VAL : std::max(worst, d);
  }
  return worst;
}

/// Scales and other constants are float32 in a graph.
constexpr double kExact = 1e-5;

/// Attention by its definition, with indices as KernelKind::AttentionForward documents them.
struct Definition {
  AttentionShape s;
  double scale;
  const std::vector<double>& qkv;

  std::size_t at(std::int64_t b, std::int64_t t, std::int64_t head, std::int64_t d) const {
    return static_cast<std::size_t>(
        ((b * s.seq + t) * (s.heads + 2 * s.kv_heads) + head) * s.head_dim + d);
  }
  std::size_t in_o(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return static_cast<std::size_t>(((b * s.seq + t) * s.heads + h) * s.head_dim + d);
  }
  std::int64_t key(std::int64_t h) const { return s.heads + h / (s.heads / s.kv_heads); }
  std::int64_t value(std::int64_t h) const { return key(h) + s.kv_heads; }

  /// The weights of a query for the keys that it sees.
  std::vector<double> weights(std::int64_t b, std::int64_t h, std::int64_t t, double& lse) const {
    std::vector<double> p;
    double sum = 0;
    for (std::int64_t k = 0; k <= t; ++k) {
      double score = 0;
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        score += qkv[at(b, t, h, d)] * qkv[at(b, k, key(h), d)];
      }
      p.push_back(std::exp(scale * score));
      sum += p.back();
    }
    for (double& x : p) x /= sum;
    lse = std::log(sum);
    return p;
  }
  void for_queries(const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& f) const {
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        for (std::int64_t t = 0; t < s.seq; ++t) f(b, h, t);
      }
    }
  }
  void forward(std::vector<double>& o, std::vector<double>& lse) const {
    for_queries([&](std::int64_t b, std::int64_t h, std::int64_t t) {
      double& row = lse[(b * s.heads + h) * s.seq + t];
      const std::vector<double> p = weights(b, h, t, row);
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        double sum = 0;
        for (std::int64_t k = 0; k <= t; ++k) {
          sum += p[k] * qkv[at(b, k, value(h), d)];
        }
        o[in_o(b, t, h, d)] = sum;
      }
    });
  }
  /// dv = pᵀ do; ds = p (do v − Σ p do v) scale; dq = ds k; dk = dsᵀ q.
  std::vector<double> backward(const std::vector<double>& d_o) const {
    std::vector<double> d(qkv.size(), 0);
    for_queries([&](std::int64_t b, std::int64_t h, std::int64_t t) {
      double lse = 0;
      const std::vector<double> p = weights(b, h, t, lse);
      std::vector<double> d_p(p.size(), 0);
      double mean = 0;
      for (std::int64_t k = 0; k <= t; ++k) {
        const auto i = static_cast<std::size_t>(k);
        for (std::int64_t j = 0; j < s.head_dim; ++j) {
          const double gradient = d_o[in_o(b, t, h, j)];
          d_p[i] += gradient * qkv[at(b, k, value(h), j)];
          d[at(b, k, value(h), j)] += p[i] * gradient;
        }
        mean += p[i] * d_p[i];
      }
      for (std::int64_t k = 0; k <= t; ++k) {
        const auto i = static_cast<std::size_t>(k);
        const double d_s = p[i] * (d_p[i] - mean) * scale;
        for (std::int64_t j = 0; j < s.head_dim; ++j) {
          d[at(b, t, h, j)] += d_s * qkv[at(b, k, key(h), j)];
          d[at(b, k, key(h), j)] += d_s * qkv[at(b, t, h, j)];
        }
      }
    });
    return d;
  }
};

}  // namespace

TEST_CASE("the graphs of attention compute attention and its gradients", "[cuda][cudnn]") {
  // With the usual scale, and another one.
  const auto check = [](const AttentionShape& s, double scale) {
    INFO(s.batch << " " << s.seq << " " << s.heads << " " << s.kv_heads << " " << s.head_dim
                 << ", scale " << scale);
    Kernel forward_kernel = attention(KernelKind::AttentionForward, s);
    Kernel backward_kernel = attention(KernelKind::AttentionBackward, s);
    forward_kernel.scalars[1] = backward_kernel.scalars[1] = scale;
    const std::int64_t tokens = s.batch * s.seq, result = tokens * s.heads * s.head_dim;
    const auto qkv = random_values(tokens * (s.heads + 2 * s.kv_heads) * s.head_dim, 1);
    const auto d_o = random_values(result, 2);
    std::vector<double> o(static_cast<std::size_t>(result)),
        lse(static_cast<std::size_t>(tokens * s.heads));
    const Definition definition{s, scale > 0 ? scale : 1 / std::sqrt(double(s.head_dim)), qkv};
    definition.forward(o, lse);

    const std::vector<double> poison(qkv.size(), NAN);
    Operands forward{{qkv}, {std::vector<double>(o.size(), NAN), std::vector<double>(lse.size())}};
    const test::GraphComputer forward_graph(*graph_of(forward_kernel), forward);
    CHECK(distance(forward.out[0], o) < kExact);
    CHECK(distance(forward.out[1], lse) < kExact);

    Operands backward{{qkv, o, lse, d_o}, {poison}};
    const test::GraphComputer backward_graph(*graph_of(backward_kernel), backward);
    CHECK(distance(backward.out[0], definition.backward(d_o)) < kExact);
  };
  for (const AttentionShape& s : {AttentionShape{2, 7, 3, 3, 8}, AttentionShape{1, 5, 4, 2, 16},
                                  AttentionShape{2, 6, 6, 1, 8}, AttentionShape{1, 1, 2, 2, 8}}) {
    check(s, 0);
    check(s, 0.8);
  }
}

TEST_CASE("no tensor of attention's graphs that grows with the square of the sequence is stored",
          "[cuda][cudnn]") {
  const AttentionShape s{2, 64, 4, 2, 8};
  for (const KernelKind kind : {KernelKind::AttentionForward, KernelKind::AttentionBackward}) {
    const Graph graph = *graph_of(attention(kind, s));
    for (const Tensor& tensor : graph.tensors) {
      if (tensor.dims[2] == s.seq && tensor.dims[3] == s.seq) {
        CHECK(tensor.place == Tensor::Place::Virtual);
      }
    }
    CHECK(graph.workspace_bytes <= 4 * s.batch * s.heads * s.seq);
  }
}

TEST_CASE("the graphs of convolutions compute them, with what is added", "[cuda][cudnn]") {
  for (const ConvolutionShape& s :
       {ConvolutionShape{2, 5, 6, 3, 4, 3, 1}, ConvolutionShape{1, 8, 7, 2, 3, 7, 2},
        ConvolutionShape{2, 5, 5, 3, 2, 1, 2}, ConvolutionShape{2, 8, 4, 3, 5, 4, 4}}) {
    INFO(s.batch << " " << s.height << "x" << s.width << " window " << s.window << " stride "
                 << s.stride);
    const std::int64_t rows = (s.height + s.stride - 1) / s.stride,
                       columns = (s.width + s.stride - 1) / s.stride;
    const auto x = random_values(s.batch * s.height * s.width * s.in, 1);
    const auto w = random_values(s.out * s.window * s.window * s.in, 2);
    const auto dy = random_values(s.batch * rows * columns * s.out, 3);
    // By its definition, channels last.
    std::vector<double> y(dy.size(), 0), dx(x.size(), 0), dw(w.size(), 0);
    const std::int64_t pad = s.window == s.stride ? 0 : (s.window - 1) / 2;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          for (std::int64_t o = 0; o < s.out; ++o) {
            for (std::int64_t r = 0; r < s.window; ++r) {
              for (std::int64_t c = 0; c < s.window; ++c) {
                const std::int64_t i = row * s.stride + r - pad, j = column * s.stride + c - pad;
                if (i < 0 || j < 0 || i >= s.height || j >= s.width) continue;
                for (std::int64_t n = 0; n < s.in; ++n) {
                  const auto to =
                      static_cast<std::size_t>(((b * rows + row) * columns + column) * s.out + o);
                  const auto from =
                      static_cast<std::size_t>(((b * s.height + i) * s.width + j) * s.in + n);
                  const auto by =
                      static_cast<std::size_t>(((o * s.window + r) * s.window + c) * s.in + n);
                  y[to] += x[from] * w[by];
                  dx[from] += dy[to] * w[by];
                  dw[by] += dy[to] * x[from];
                }
              }
            }
          }
        }
      }
    }
    Operands forward{{x, w}, {std::vector<double>(y.size(), NAN)}};
    const test::GraphComputer forward_graph(
        *graph_of(convolution(KernelKind::Conv2dForward, s, false)), forward);
    CHECK(distance(forward.out[0], y) < kExact);
    for (const bool added : {false, true}) {
      const auto resid = random_values(std::int64_t(x.size()), 4);
      const auto before = random_values(std::int64_t(w.size()), 5);
      Operands input{{dy, w, resid}, {std::vector<double>(x.size(), NAN)}};
      const test::GraphComputer input_graph(
          *graph_of(convolution(KernelKind::Conv2dBackwardInput, s, added)), input);
      std::vector<double> expected = dx;
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added ? resid[i] : 0;
      CHECK(distance(input.out[0], expected) < kExact);
      for (const DType type : {DType::BF16, DType::F32}) {
        Operands weight{{dy, x}, {before}};
        const test::GraphComputer weight_graph(
            *graph_of(convolution(KernelKind::Conv2dBackwardWeight, s, added, type)), weight);
        expected = dw;
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added ? before[i] : 0;
        CHECK(distance(weight.out[0], expected) < kExact);
      }
    }
  }
}

TEST_CASE("what cuDNN is not given has no graph", "[cuda][cudnn]") {
  const auto none = [](const Kernel& kernel) { return !graph_of(kernel); };
  using K = KernelKind;
  CHECK(none(attention(K::AttentionForward, {1, 8, 4, 4, 12})));         // not a multiple of 8
  CHECK(none(attention(K::AttentionBackward, {1, 8, 4, 4, 264})));       // too long
  CHECK(none(attention(K::AttentionForward, {1, 8, 4, 4, 64, 2})));      // keys of other ranks
  CHECK(none(attention(K::AttentionForward, {1, 8, 4, 4, 64, 0, 1})));   // not causal
  CHECK(none(attention(K::AttentionBackward, {1, 8, 4, 4, 64, 0, 1})));  // likewise
  for (const K kind : {K::AttentionForward, K::AttentionBackward}) {
    Kernel drops = attention(kind, {1, 8, 4, 4, 64});
    CHECK_FALSE(none(drops));
    drops.scalars[0] = 0.1;
    CHECK(none(drops));
    Kernel caps = attention(kind, {1, 8, 4, 4, 64});
    caps.scalars[1] = 0.1;
    CHECK_FALSE(none(caps));
    caps.scalars[2] = 50;
    CHECK(none(caps));
  }
  CHECK(none(convolution(K::Conv2dForward, {1, 8, 9, 4, 4, 4, 4}, false)));  // beyond the image
  Kernel single = attention(K::AttentionForward, {1, 8, 4, 4, 64});
  single.dtype = DType::F32;
  CHECK(none(single));
  CHECK(none(convolution(K::Conv2dForward, {1, 8, 8, 4, 4, 1, 1}, false)));  // a matrix product
  Kernel product;
  product.kind = K::Gemm;
  CHECK(none(product));
}
