#include "tests/backends/cpu/kernel_case.hpp"

namespace lockstep::cpu::test {
namespace {

struct Shape {
  std::size_t batch, seq, heads, kv_heads, dim;
  std::size_t row() const { return (heads + 2 * kv_heads) * dim; }
  std::size_t qkv() const { return batch * seq * row(); }
  std::size_t out() const { return batch * seq * heads * dim; }
  std::size_t lse() const { return batch * heads * seq; }
  std::vector<std::int64_t> dims() const {
    return {static_cast<std::int64_t>(batch), static_cast<std::int64_t>(seq),
            static_cast<std::int64_t>(heads), static_cast<std::int64_t>(kv_heads),
            static_cast<std::int64_t>(dim)};
  }
};

/// The definition: softmax over all keys up to the query, one score at a time, in float64.
/// Returns o, lse and, given the output gradient, dqkv.
std::vector<Values> reference(const Shape& s, const Values& qkv, const Values& d_out) {
  Values o(s.out(), 0), lse(s.lse(), 0), dqkv(s.qkv(), 0);
  const double scale = 1 / std::sqrt(static_cast<double>(s.dim));
  for (std::size_t b = 0; b < s.batch; ++b) {
    for (std::size_t h = 0; h < s.heads; ++h) {
      const std::size_t kv = h / (s.heads / s.kv_heads);
      const auto at = [&](std::size_t head, std::size_t t) {
        return (b * s.seq + t) * s.row() + head * s.dim;
      };
      for (std::size_t i = 0; i < s.seq; ++i) {
        const std::size_t q = at(h, i), out = ((b * s.seq + i) * s.heads + h) * s.dim;
        Values p(i + 1), dp(i + 1, 0);
        double sum = 0, delta = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t d = 0; d < s.dim; ++d)
            score += qkv[q + d] * qkv[at(s.heads + kv, j) + d];
          p[j] = std::exp(score * scale);
          sum += p[j];
        }
        for (std::size_t j = 0; j <= i; ++j) {
          p[j] /= sum;
          const std::size_t v = at(s.heads + s.kv_heads + kv, j);
          for (std::size_t d = 0; d < s.dim; ++d) {
            o[out + d] += p[j] * qkv[v + d];
            dp[j] += d_out[out + d] * qkv[v + d];
            dqkv[v + d] += p[j] * d_out[out + d];
          }
          delta += p[j] * dp[j];
        }
        for (std::size_t j = 0; j <= i; ++j) {
          const double ds = p[j] * (dp[j] - delta) * scale;
          const std::size_t k = at(s.heads + kv, j);
          for (std::size_t d = 0; d < s.dim; ++d) {
            dqkv[q + d] += ds * qkv[k + d];
            dqkv[k + d] += ds * qkv[q + d];
          }
        }
        lse[(b * s.heads + h) * s.seq + i] = std::log(sum);
      }
    }
  }
  return {o, lse, dqkv};
}

KernelCase forward_case(const Shape& s, Values qkv) {
  KernelCase c{KernelKind::AttentionForward};
  c.dims = s.dims();
  c.in = {{std::move(qkv)}};
  c.out = {{s.out()}, {s.lse()}};
  return c;
}

KernelCase backward_case(const Shape& s, const Values& qkv, const Values& o, const Values& lse,
                         const Values& d_out) {
  KernelCase c{KernelKind::AttentionBackward};
  c.dims = s.dims();
  c.in = {{qkv}, {o}, {lse}, {d_out}};
  c.out = {{s.qkv()}};
  return c;
}

const Shape kShapes[] = {{1, 1, 1, 1, 1},   {2, 3, 2, 2, 5},   {1, 17, 3, 1, 8},
                         {2, 64, 2, 1, 16}, {1, 65, 4, 2, 33}, {1, 130, 2, 2, 64},
                         {3, 113, 1, 1, 7}, {1, 260, 2, 1, 12}};

TEST_CASE("attention forward equals the softmax over earlier keys", "[backends][cpu]") {
  for (const Shape& s : kShapes) {
    INFO(s.batch << " " << s.seq << " " << s.heads << " " << s.kv_heads << " " << s.dim);
    const Values qkv = random_values(s.qkv(), 11, 2.0);
    const auto expected = reference(s, qkv, Values(s.out(), 0));
    check_case(forward_case(s, qkv), {expected[0], expected[1]}, 2e-6, 1e-14);
  }
}

TEST_CASE("attention backward equals the derivative of the softmax", "[backends][cpu]") {
  for (const Shape& s : kShapes) {
    INFO(s.batch << " " << s.seq << " " << s.heads << " " << s.kv_heads << " " << s.dim);
    const Values qkv = random_values(s.qkv(), 11, 2.0), d_out = random_values(s.out(), 12);
    const auto expected = reference(s, qkv, d_out);
    check_case(backward_case(s, qkv, expected[0], expected[1], d_out), {expected[2]}, 4e-6, 2e-14);
  }
}

TEST_CASE("attention's gradient equals the finite difference of its forward", "[backends][cpu]") {
  const Shape s{2, 70, 4, 2, 6};
  const Values qkv = random_values(s.qkv(), 21), g = random_values(s.out(), 22);
  const KernelCase forward = forward_case(s, qkv);
  const auto saved = run(forward);
  const Values gradient = run(backward_case(s, qkv, saved[0], saved[1], g))[0];
  for (unsigned seed = 0; seed < 3; ++seed) {
    const Values direction = random_values(s.qkv(), 30 + seed);
    CHECK(slope(forward, 0, direction, g) == Approx(dot(gradient, direction)).epsilon(1e-6));
  }
}

TEST_CASE("attention survives scores far beyond the range of exp", "[backends][cpu]") {
  const Shape s{1, 100, 1, 1, 4};
  Values qkv = random_values(s.qkv(), 5, 60.0);  // scores up to 7200: exp overflows float32 and 64
  const auto results = run_everywhere(forward_case(s, qkv));
  for (const auto& outputs : results) {
    for (const double x : outputs[0]) CHECK(std::abs(x) <= 60.0);
  }
}

TEST_CASE("a position's attention does not depend on later positions", "[backends][cpu]") {
  const Shape s{1, 150, 2, 1, 16};
  for (const DType dtype : {DType::F32, DType::F64}) {
    Values qkv = random_values(s.qkv(), 5);
    KernelCase c = forward_case(s, qkv);
    c.dtype = dtype;
    const Values before = run(c)[0];
    for (std::size_t i = 100 * s.row(); i < s.qkv(); ++i) c.in[0].values[i] = 3;
    const Values after = run(c)[0];
    const auto kept = static_cast<std::ptrdiff_t>(100 * s.heads * s.dim);
    CHECK(bit_equal(Values(before.begin(), before.begin() + kept),
                    Values(after.begin(), after.begin() + kept)));
  }
}

}  // namespace
}  // namespace lockstep::cpu::test
