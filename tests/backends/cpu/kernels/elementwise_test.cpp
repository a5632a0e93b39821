#include "tests/backends/cpu/kernels/kernel_case.hpp"

namespace lockstep::cpu::test {
namespace {

std::vector<std::int64_t> dims_of(std::initializer_list<std::size_t> sizes) {
  std::vector<std::int64_t> dims;
  for (const std::size_t n : sizes) dims.push_back(static_cast<std::int64_t>(n));
  return dims;
}

Values map(const Values& x, double (*f)(double)) {
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = f(x[i]);
  return y;
}

/// GELU's tanh form and its derivative, as PyTorch's gelu(approximate="tanh") defines them.
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}
double silu(double x) { return x / (1 + std::exp(-x)); }

KernelCase gelu_case(const Values& x) {
  KernelCase c{KernelKind::GeluForward};
  c.dims = dims_of({x.size()});
  c.in = {{x}};
  c.out = {{x.size()}};
  return c;
}
KernelCase gelu_backward_case(const Values& dy, const Values& x) {
  KernelCase c{KernelKind::GeluBackward};
  c.dims = dims_of({x.size()});
  c.in = {{dy}, {x}};
  c.out = {{x.size()}};
  return c;
}

TEST_CASE("gelu equals its tanh form at every length", "[backends][cpu]") {
  for (const std::size_t n : {1u, 7u, 16u, 33u, 1000u, 40000u}) {
    INFO(n);
    const Values x = random_values(n, 1, 6.0), dy = random_values(n, 2);
    check_case(gelu_case(x), {map(x, gelu)}, 3e-7, 1e-15);
    Values dx = map(x, gelu_slope);
    for (std::size_t i = 0; i < n; ++i) dx[i] *= dy[i];
    KernelCase backward = gelu_backward_case(dy, x);
    check_case(backward, {dx}, 6e-7, 2e-15);
    backward.out[0].aliases = 0;
    check_case(backward, {dx}, 6e-7, 2e-15);
  }
}

TEST_CASE("gelu is accurate relative to each value, and tame at the extremes", "[backends][cpu]") {
  for (const DType dtype : {DType::F32, DType::F64}) {
    // x / (1 + exp(-2u)): no cancellation where 1 + tanh(u) would lose all digits.
    Values x;
    for (double v = -5; v <= 5; v += 0.03125) x.push_back(v);
    KernelCase c = gelu_case(x);
    c.dtype = dtype;
    for (const auto& outputs : run_everywhere(c)) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double u = std::sqrt(2 / M_PI) * (x[i] + 0.044715 * x[i] * x[i] * x[i]);
        const double expected = x[i] / (1 + std::exp(-2 * u));
        INFO(x[i]);
        CHECK(std::abs(outputs[0][i] - expected) <=
              (dtype == DType::F32 ? 3e-6 : 1e-14) * std::abs(expected));
      }
    }
    const Values wild = {-1e4, -300, -40, 0, 40, 300, 1e4};
    KernelCase extremes = gelu_case(wild);
    extremes.dtype = dtype;
    KernelCase slopes = gelu_backward_case(Values(wild.size(), 1.0), wild);
    slopes.dtype = dtype;
    const Values y = run(extremes)[0], dy = run(slopes)[0];
    for (std::size_t i = 0; i < wild.size(); ++i) {
      CHECK(y[i] == Approx(wild[i] > 0 ? wild[i] : 0.0).margin(1e-30));
      CHECK(dy[i] == Approx(wild[i] > 0 ? 1.0 : wild[i] < 0 ? 0.0 : 0.5).margin(1e-20));
    }
  }
}

TEST_CASE("gelu passes on NaN instead of hiding it", "[backends][cpu]") {
  Values x(40, 1.0);
  x[3] = x[37] = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::F32, DType::F64}) {
    KernelCase c = gelu_case(x);
    c.dtype = dtype;
    for (const auto& outputs : run_everywhere(c)) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK(std::isnan(outputs[0][i]) == std::isnan(x[i]));
      }
    }
  }
}

TEST_CASE("swiglu gates its second half by silu of its first", "[backends][cpu]") {
  for (const auto& [rows, cols] :
       std::vector<std::pair<std::size_t, std::size_t>>{{1, 1}, {3, 17}, {5, 64}, {40, 1000}}) {
    INFO(rows << "x" << cols);
    const Values x = random_values(rows * 2 * cols, 1, 5.0), dy = random_values(rows * cols, 2);
    Values y(rows * cols), dx(rows * 2 * cols);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < cols; ++c) {
        const double g = x[r * 2 * cols + c], u = x[r * 2 * cols + cols + c];
        const double s = 1 / (1 + std::exp(-g)), d = dy[r * cols + c];
        y[r * cols + c] = silu(g) * u;
        dx[r * 2 * cols + c] = d * u * (s + g * s * (1 - s));
        dx[r * 2 * cols + cols + c] = d * silu(g);
      }
    }
    KernelCase forward{KernelKind::SwigluForward};
    forward.dims = dims_of({rows, cols});
    forward.in = {{x}};
    forward.out = {{rows * cols}};
    check_case(forward, {y}, 3e-7, 1e-15);
    KernelCase backward{KernelKind::SwigluBackward};
    backward.dims = dims_of({rows, cols});
    backward.in = {{dy}, {x}};
    backward.out = {{rows * 2 * cols}};
    check_case(backward, {dx}, 6e-7, 2e-15);
    const Values direction = random_values(x.size(), 3);
    CHECK(slope(forward, 0, direction, dy) ==
          Approx(dot(run(backward)[0], direction)).epsilon(1e-6).margin(1e-9));
  }
}

TEST_CASE("gelu's gradient equals the finite difference of its forward", "[backends][cpu]") {
  const Values x = random_values(333, 1, 4.0), g = random_values(333, 2);
  const Values direction = random_values(333, 3);
  CHECK(slope(gelu_case(x), 0, direction, g) ==
        Approx(dot(run(gelu_backward_case(g, x))[0], direction)).epsilon(1e-6));
}

KernelCase rope_case(std::size_t batch, std::size_t seq, std::size_t heads, std::size_t dim,
                     std::size_t row_heads, bool inverse, const Values& x) {
  KernelCase c{KernelKind::Rope};
  c.dims = dims_of({batch, seq, heads, dim, row_heads, inverse ? 1u : 0u});
  c.scalars = {10000.0};
  c.in = {{x}};
  c.out = {{x.size(), 0}};
  return c;
}

TEST_CASE("rope rotates the first heads of each position and leaves the others",
          "[backends][cpu]") {
  struct Shape {
    std::size_t batch, seq, heads, dim, row_heads;
  };
  for (const Shape& s : {Shape{1, 1, 1, 2, 1}, Shape{2, 9, 3, 6, 4}, Shape{1, 40, 2, 64, 2},
                         Shape{2, 17, 5, 36, 9}}) {
    const Values x = random_values(s.batch * s.seq * s.row_heads * s.dim, 1);
    for (const bool inverse : {false, true}) {
      Values expected = x;
      const std::size_t half = s.dim / 2;
      for (std::size_t row = 0; row < s.batch * s.seq; ++row) {
        for (std::size_t h = 0; h < s.heads; ++h) {
          for (std::size_t i = 0; i < half; ++i) {
            const double frequency =
                std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(s.dim));
            const double angle =
                (inverse ? -1.0 : 1.0) * static_cast<double>(row % s.seq) * frequency;
            const std::size_t at = (row * s.row_heads + h) * s.dim + i;
            expected[at] = x[at] * std::cos(angle) - x[at + half] * std::sin(angle);
            expected[at + half] = x[at + half] * std::cos(angle) + x[at] * std::sin(angle);
          }
        }
      }
      check_case(rope_case(s.batch, s.seq, s.heads, s.dim, s.row_heads, inverse, x), {expected},
                 2e-7, 1e-15);
    }
    const Values rotated = run(rope_case(s.batch, s.seq, s.heads, s.dim, s.row_heads, false, x))[0];
    const Values back =
        run(rope_case(s.batch, s.seq, s.heads, s.dim, s.row_heads, true, rotated))[0];
    CHECK(relative_error(back, x) < 1e-15);
  }
}

TEST_CASE("adamw follows PyTorch's update over several steps", "[backends][cpu]") {
  constexpr double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1;
  for (const std::size_t n : {1u, 15u, 100u, 33000u}) {
    for (const double coef : {1.0, 0.25}) {
      INFO(n << " coef " << coef);
      Values w = random_values(n, 1), m = random_values(n, 2, 0.1), v = random_values(n, 3, 0.01);
      for (double& x : v) x = std::abs(x);
      for (int step = 0; step < 3; ++step) {
        const double lr = 1e-3 * (step + 1), t = step + 1;
        const Values g = random_values(n, 10 + static_cast<unsigned>(step));
        KernelCase c{KernelKind::AdamW};
        c.dims = dims_of({n});
        c.scalars = {beta1, beta2, eps, decay};
        c.in = {{g}, {coef == 1.0 ? Values{} : Values{coef}}};
        c.out = {{n, -1, w}, {n, -1, m}, {n, -1, v}};
        c.context = {step, lr};
        for (std::size_t i = 0; i < n; ++i) {
          const double grad = g[i] * coef;
          w[i] -= lr * decay * w[i];
          m[i] += (1 - beta1) * (grad - m[i]);
          v[i] = beta2 * v[i] + (1 - beta2) * grad * grad;
          const double denominator = std::sqrt(v[i]) / std::sqrt(1 - std::pow(beta2, t)) + eps;
          w[i] -= lr / (1 - std::pow(beta1, t)) * m[i] / denominator;
        }
        check_case(c, {w, m, v}, 5e-7, 2e-15);
        // Go on from float32 values, so that both types start each step alike.
        for (Values* state : {&w, &m, &v}) {
          for (double& x : *state) x = static_cast<float>(x);
        }
      }
    }
  }
}

TEST_CASE("fill writes its value everywhere", "[backends][cpu]") {
  for (const std::size_t n : {1u, 31u, 50000u}) {
    KernelCase c{KernelKind::Fill};
    c.dims = dims_of({n});
    c.scalars = {0.25};
    c.out = {{n}};
    check_case(c, {Values(n, 0.25)}, 0, 0);
  }
}

TEST_CASE("an element's result does not depend on where it stands in its tensor",
          "[backends][cpu]") {
  // This makes a sharded update bit-equal to the unsharded one.
  const std::size_t n = 77;
  const Values a = random_values(n, 1, 4.0), b = random_values(n, 2), c = random_values(n, 3);
  Values d = random_values(n, 4, 0.01);
  for (double& x : d) x = std::abs(x);
  const auto cases = [&](std::size_t from) {
    const auto tail = [&](const Values& v) {
      return Values(v.begin() + static_cast<std::ptrdiff_t>(from), v.end());
    };
    KernelCase adamw{KernelKind::AdamW};
    adamw.dims = dims_of({n - from});
    adamw.scalars = {0.9, 0.95, 1e-8, 0.1};
    adamw.in = {{tail(a)}, {Values{0.3}}};
    adamw.out = {{n - from, -1, tail(b)}, {n - from, -1, tail(c)}, {n - from, -1, tail(d)}};
    adamw.context = {4, 1e-3};
    return std::vector<KernelCase>{gelu_case(tail(a)), gelu_backward_case(tail(b), tail(a)), adamw};
  };
  for (const DType dtype : {DType::F32, DType::F64}) {
    for (std::size_t from = 1; from < n; ++from) {
      for (std::size_t k = 0; k < 3; ++k) {
        KernelCase whole = cases(0)[k], part = cases(from)[k];
        whole.dtype = part.dtype = dtype;
        for (int t = 0; t < kernel_tables().count; ++t) {
          const auto all = run_once(whole, kernel_tables().tables[t], 1);
          const auto some = run_once(part, kernel_tables().tables[t], 1);
          for (std::size_t o = 0; o < all.size(); ++o) {
            INFO(kernel_tables().tables[t].isa << " kernel " << k << " from " << from);
            REQUIRE(bit_equal(
                some[o], Values(all[o].begin() + static_cast<std::ptrdiff_t>(from), all[o].end())));
          }
        }
      }
    }
  }
}

TEST_CASE("regroup leaves the columns before its sections alone", "[backends][cpu]") {
  const std::size_t rows = 5, skip = 7, cols = 6;
  const Values x = random_values(rows * (skip + cols), 1);
  Values y, elsewhere(x.size(), 3.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % (skip + cols) >= skip) y.push_back(x[i]);
  }
  KernelCase c{KernelKind::Regroup};
  c.dims = {5, 1, 6, 0, 0, 0, 7};
  c.in = {{x}};
  c.out = {{y.size()}};
  check_case(c, {y}, 0, 0);
  c.dims[5] = 1;
  c.in = {{y}};
  c.out = {{x.size(), -1, elsewhere}};
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % (skip + cols) >= skip) elsewhere[i] = x[i];
  }
  check_case(c, {elsewhere}, 0, 0);
}

TEST_CASE("rope turns two pieces by their positions in the sequence", "[backends][cpu]") {
  const std::size_t whole = 12, piece = 3, row = 2 * 4;  // two heads of four
  const auto turned = [&](const Values& x, std::int64_t seq, const Values& starts) {
    KernelCase c{KernelKind::Rope};
    c.dims = {1, seq, 2, 4, 2, 0};
    c.scalars = {100.0};
    c.in = {{x}, {starts}};
    c.out = {{x.size(), 0}};
    return run(c)[0];
  };
  const Values x = random_values(whole * row, 1), all = turned(x, whole, {});
  const auto pieces = [&](const Values& from) {
    Values out;
    for (const std::size_t start : {3, 9}) {
      for (std::size_t i = start * row; i < (start + piece) * row; ++i) out.push_back(from[i]);
    }
    return out;
  };
  CHECK(bit_equal(turned(pieces(x), 2 * piece, {3, 9}), pieces(all)));
}

TEST_CASE("regroup puts part p of every section of every row together, and back",
          "[backends][cpu]") {
  struct Shape {
    std::size_t rows, parts;
    std::vector<std::size_t> widths;
  };
  for (const Shape& s : {Shape{1, 1, {1, 0, 0}}, Shape{5, 3, {4, 2, 2}}, Shape{7, 2, {64, 16, 16}},
                         Shape{3, 5, {7, 0, 0}}, Shape{300, 4, {3, 1, 2}}}) {
    const std::size_t cols = s.widths[0] + s.widths[1] + s.widths[2];
    INFO(s.rows << " rows, " << s.parts << " parts of " << cols);
    const Values x = random_values(s.rows * s.parts * cols, 1);
    Values y;  // what the definition gives
    for (std::size_t part = 0; part < s.parts; ++part) {
      for (std::size_t row = 0; row < s.rows; ++row) {
        std::size_t section = row * s.parts * cols;
        for (const std::size_t width : s.widths) {
          for (std::size_t i = 0; i < width; ++i) y.push_back(x[section + part * width + i]);
          section += s.parts * width;
        }
      }
    }
    KernelCase c{KernelKind::Regroup};
    for (const std::int64_t inverse : {0, 1}) {
      c.dims = {static_cast<std::int64_t>(s.rows), static_cast<std::int64_t>(s.parts)};
      for (const std::size_t width : s.widths) c.dims.push_back(static_cast<std::int64_t>(width));
      c.dims.push_back(inverse);
      c.in = {{inverse ? y : x}};
      c.out = {{x.size()}};
      check_case(c, {inverse ? x : y}, 0, 0);
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu::test
