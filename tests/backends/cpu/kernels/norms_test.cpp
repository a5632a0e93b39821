#include "tests/backends/cpu/kernels/kernel_case.hpp"

namespace lockstep::cpu::test {
namespace {

constexpr double kEps = 1e-5;

struct Shape {
  std::size_t rows, cols;
  std::size_t n() const { return rows * cols; }
  std::vector<std::int64_t> dims() const {
    return {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)};
  }
};
const Shape kShapes[] = {{1, 1},   {3, 5},    {2, 16},    {9, 33},
                         {17, 64}, {50, 129}, {100, 768}, {7, 2000}};

/// Everything about a norm from its definition, in float64: LayerNorm if `centered`, else RMSNorm.
struct Norm {
  Values y, stats, dx, dw, db;
};
Norm reference(const Shape& s, bool centered, const Values& x, const Values& w, const Values& b,
               const Values& dy) {
  Norm r;
  r.y.resize(s.n());
  r.dx.resize(s.n());
  r.dw.assign(s.cols, 0);
  r.db.assign(s.cols, 0);
  const double n = static_cast<double>(s.cols);
  for (std::size_t i = 0; i < s.rows; ++i) {
    const double* const row = x.data() + i * s.cols;
    double mean = 0, square = 0;
    if (centered) {
      for (std::size_t c = 0; c < s.cols; ++c) mean += row[c] / n;
    }
    for (std::size_t c = 0; c < s.cols; ++c) square += (row[c] - mean) * (row[c] - mean) / n;
    const double scale = 1 / std::sqrt(square + kEps);
    double g_mean = 0, g_xhat_mean = 0;
    for (std::size_t c = 0; c < s.cols; ++c) {
      const double xhat = (row[c] - mean) * scale, g = dy[i * s.cols + c] * w[c];
      r.y[i * s.cols + c] = xhat * w[c] + (centered ? b[c] : 0);
      r.dw[c] += dy[i * s.cols + c] * xhat;
      r.db[c] += dy[i * s.cols + c];
      if (centered) g_mean += g / n;
      g_xhat_mean += g * xhat / n;
    }
    for (std::size_t c = 0; c < s.cols; ++c) {
      const double xhat = (row[c] - mean) * scale;
      r.dx[i * s.cols + c] = scale * (dy[i * s.cols + c] * w[c] - g_mean - xhat * g_xhat_mean);
    }
    if (centered) r.stats.push_back(mean);
    r.stats.push_back(scale);
  }
  return r;
}

KernelCase forward_case(const Shape& s, bool centered, const Values& x, const Values& w,
                        const Values& b) {
  KernelCase c{centered ? KernelKind::LayerNormForward : KernelKind::RmsNormForward};
  c.dims = s.dims();
  c.scalars = {kEps};
  c.in = {{x}, {w}};
  if (centered) c.in.push_back({b});
  c.out = {{s.n()}, {centered ? 2 * s.rows : s.rows}};
  return c;
}
KernelCase backward_input_case(const Shape& s, bool centered, const Values& dy, const Values& x,
                               const Values& w, const Values& stats, const Values& resid) {
  KernelCase c{centered ? KernelKind::LayerNormBackwardInput : KernelKind::RmsNormBackwardInput};
  c.dims = s.dims();
  c.in = {{dy}, {x}, {w}, {stats}, {resid}};
  c.out = {{s.n()}};
  return c;
}
KernelCase backward_weight_case(const Shape& s, bool centered, const Values& dy, const Values& x,
                                const Values& stats) {
  KernelCase c{centered ? KernelKind::LayerNormBackwardWeight : KernelKind::RmsNormBackwardWeight};
  c.dims = s.dims();
  c.in = {{dy}, {x}, {stats}};
  c.out = {{s.cols}};
  if (centered) c.out.push_back({s.cols});
  return c;
}

Values plus(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

TEST_CASE("LayerNorm and RMSNorm equal their definitions in both directions", "[backends][cpu]") {
  for (const bool centered : {true, false}) {
    for (const Shape& s : kShapes) {
      INFO((centered ? "layer_norm " : "rms_norm ") << s.rows << "x" << s.cols);
      const Values x = random_values(s.n(), 1, 3.0), w = random_values(s.cols, 2);
      const Values b = random_values(s.cols, 3), dy = random_values(s.n(), 4);
      const Values resid = random_values(s.n(), 5);
      const Norm r = reference(s, centered, x, w, b, dy);
      check_case(forward_case(s, centered, x, w, b), {r.y, r.stats}, 2e-6, 1e-14);
      // The gradient of a row of one column is what cancellation leaves of eps: nothing to compare.
      if (s.cols == 1) continue;
      check_case(backward_input_case(s, centered, dy, x, w, r.stats, {}), {r.dx}, 6e-6, 1e-13);
      check_case(backward_input_case(s, centered, dy, x, w, r.stats, resid), {plus(r.dx, resid)},
                 6e-6, 1e-13);
      KernelCase weight = backward_weight_case(s, centered, dy, x, r.stats);
      const std::vector<Values> expected =
          centered ? std::vector<Values>{r.dw, r.db} : std::vector<Values>{r.dw};
      check_case(weight, expected, 6e-6, 1e-13);
      weight.accumulate = true;
      weight.out[0].initial = random_values(s.cols, 6);
      if (centered) weight.out[1].initial = random_values(s.cols, 7);
      std::vector<Values> added = expected;
      for (std::size_t i = 0; i < added.size(); ++i) {
        added[i] = plus(added[i], weight.out[i].initial);
      }
      check_case(weight, added, 6e-6, 1e-13);
    }
  }
}

TEST_CASE("a norm's input gradient may replace the residual or the output gradient",
          "[backends][cpu]") {
  const Shape s{6, 70};
  for (const bool centered : {true, false}) {
    const Values x = random_values(s.n(), 1), w = random_values(s.cols, 2);
    const Values dy = random_values(s.n(), 4), resid = random_values(s.n(), 5);
    const Norm r = reference(s, centered, x, w, Values(s.cols, 0), dy);
    for (const int alias : {4, 0}) {
      KernelCase c = backward_input_case(s, centered, dy, x, w, r.stats, resid);
      c.out[0].aliases = alias;
      check_case(c, {plus(r.dx, resid)}, 4e-6, 1e-13);
    }
  }
}

TEST_CASE("gradients of norms equal finite differences of their forward", "[backends][cpu]") {
  const Shape s{5, 37};
  for (const bool centered : {true, false}) {
    const Values x = random_values(s.n(), 1), w = random_values(s.cols, 2);
    const Values b = random_values(s.cols, 3), g = random_values(s.n(), 4);
    const KernelCase forward = forward_case(s, centered, x, w, b);
    const Values stats = run(forward)[1];
    const Values dx = run(backward_input_case(s, centered, g, x, w, stats, {}))[0];
    const auto weights = run(backward_weight_case(s, centered, g, x, stats));
    const Values along_x = random_values(s.n(), 8), along_w = random_values(s.cols, 9);
    CHECK(slope(forward, 0, along_x, g) == Approx(dot(dx, along_x)).epsilon(1e-6));
    CHECK(slope(forward, 1, along_w, g) == Approx(dot(weights[0], along_w)).epsilon(1e-6));
    if (centered) {
      CHECK(slope(forward, 2, along_w, g) == Approx(dot(weights[1], along_w)).epsilon(1e-6));
    }
  }
}

TEST_CASE("column_sum adds the rows, to zero or to what is there", "[backends][cpu]") {
  for (const Shape& s : kShapes) {
    INFO(s.rows << "x" << s.cols);
    const Values x = random_values(s.n(), 1), old = random_values(s.cols, 2);
    Values expected(s.cols, 0);
    for (std::size_t i = 0; i < s.n(); ++i) expected[i % s.cols] += x[i];
    KernelCase c{KernelKind::ColumnSum};
    c.dims = s.dims();
    c.in = {{x}};
    c.out = {{s.cols}};
    check_case(c, {expected}, 2e-6, 1e-14);
    c.accumulate = true;
    c.out[0].initial = old;
    check_case(c, {plus(expected, old)}, 2e-6, 1e-14);
  }
}

}  // namespace
}  // namespace lockstep::cpu::test
