#include "core/base/index_vector.hpp"
#include "tests/backends/cpu/kernels/kernel_case.hpp"

namespace lockstep::cpu::test {
namespace {

Values plus(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// ---------------------------------------------------------------- convolution

struct Conv {
  std::int64_t batch, height, width, in, out, kernel, stride;
  std::int64_t out_height() const { return (height + stride - 1) / stride; }
  std::int64_t out_width() const { return (width + stride - 1) / stride; }
  std::vector<std::int64_t> dims() const { return {batch, height, width, in, out, kernel, stride}; }
  std::size_t x() const { return to_size(batch * height * width * in); }
  std::size_t y() const { return to_size(batch * out_height() * out_width() * out); }
  std::size_t w() const { return to_size(out * kernel * kernel * in); }
};
// They include products (1x1), strides that divide the size and that do not, a single position,
// more columns than a tile has, and more positions than a block of patches.
const Conv kConvolutions[] = {{1, 1, 1, 1, 1, 1, 1},   {2, 5, 4, 3, 2, 3, 1},
                              {2, 7, 7, 5, 4, 3, 2},   {1, 9, 6, 3, 8, 7, 2},
                              {3, 4, 4, 33, 5, 1, 1},  {2, 5, 6, 4, 35, 1, 2},
                              {1, 3, 3, 70, 40, 3, 1}, {2, 40, 30, 6, 7, 3, 1}};

/// Everything about a convolution from its definition.
struct ConvValues {
  Values y, dx, dw;
};
ConvValues convolve(const Conv& s, const Values& x, const Values& w, const Values& dy) {
  ConvValues r{Values(s.y(), 0), Values(s.x(), 0), Values(s.w(), 0)};
  const std::int64_t pad = (s.kernel - 1) / 2;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t oy = 0; oy < s.out_height(); ++oy) {
      for (std::int64_t ox = 0; ox < s.out_width(); ++ox) {
        for (std::int64_t o = 0; o < s.out; ++o) {
          const std::size_t yi =
              to_size(((b * s.out_height() + oy) * s.out_width() + ox) * s.out + o);
          for (std::int64_t ky = 0; ky < s.kernel; ++ky) {
            for (std::int64_t kx = 0; kx < s.kernel; ++kx) {
              const std::int64_t iy = oy * s.stride + ky - pad, ix = ox * s.stride + kx - pad;
              if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
              for (std::int64_t c = 0; c < s.in; ++c) {
                const std::size_t xi = to_size(((b * s.height + iy) * s.width + ix) * s.in + c);
                const std::size_t wi = to_size(((o * s.kernel + ky) * s.kernel + kx) * s.in + c);
                r.y[yi] += x[xi] * w[wi];
                r.dx[xi] += dy[yi] * w[wi];
                r.dw[wi] += dy[yi] * x[xi];
              }
            }
          }
        }
      }
    }
  }
  return r;
}

TEST_CASE("a convolution and its gradients equal their definition", "[backends][cpu]") {
  for (const Conv& s : kConvolutions) {
    INFO(s.height << "x" << s.width << "x" << s.in << " -> " << s.out << ", " << s.kernel << "/"
                  << s.stride);
    const Values x = random_values(s.x(), 1), w = random_values(s.w(), 2);
    const Values dy = random_values(s.y(), 3), resid = random_values(s.x(), 4);
    const ConvValues r = convolve(s, x, w, dy);
    KernelCase forward{KernelKind::Conv2dForward};
    forward.dims = s.dims();
    forward.in = {{x}, {w}};
    forward.out = {{s.y()}};
    check_case(forward, {r.y}, 3e-6, 1e-14);
    KernelCase input{KernelKind::Conv2dBackwardInput};
    input.dims = s.dims();
    input.in = {{dy}, {w}, {}};
    input.out = {{s.x()}};
    check_case(input, {r.dx}, 3e-6, 1e-14);
    input.in[2] = {resid};
    check_case(input, {plus(r.dx, resid)}, 3e-6, 1e-14);
    input.out[0].aliases = 2;
    check_case(input, {plus(r.dx, resid)}, 3e-6, 1e-14);
    KernelCase weight{KernelKind::Conv2dBackwardWeight};
    weight.dims = s.dims();
    weight.in = {{dy}, {x}};
    weight.out = {{s.w()}};
    check_case(weight, {r.dw}, 6e-6, 1e-13);
    weight.accumulate = true;
    weight.out[0].initial = random_values(s.w(), 5);
    check_case(weight, {plus(r.dw, weight.out[0].initial)}, 6e-6, 1e-13);
  }
}

// ---------------------------------------------------------------- batch norm

constexpr double kEps = 1e-5;

struct Columns {
  std::int64_t rows, cols;
  std::size_t n() const { return to_size(rows * cols); }
};
// The last has more than twice as many rows as one partial sum.
const Columns kColumns[] = {{2, 1}, {3, 5}, {16, 16}, {50, 33}, {1300, 19}};

struct BatchNormValues {
  Values stats, y, sums, dx, dw, db;
};
BatchNormValues batch_norm(const Columns& s, const Values& x, const Values& w, const Values& b,
                           const Values& dy) {
  BatchNormValues r{Values(to_size(2 * s.cols)),
                    Values(s.n()),
                    Values(to_size(2 * s.cols), 0.0),
                    Values(s.n()),
                    {},
                    {}};
  const double n = static_cast<double>(s.rows);
  for (std::int64_t c = 0; c < s.cols; ++c) {
    const auto i = [&](std::int64_t row) { return to_size(row * s.cols + c); };
    double mean = 0, variance = 0;
    for (std::int64_t k = 0; k < s.rows; ++k) mean += x[i(k)] / n;
    for (std::int64_t k = 0; k < s.rows; ++k) variance += (x[i(k)] - mean) * (x[i(k)] - mean) / n;
    const double scale = 1 / std::sqrt(variance + kEps);
    double sum = 0, sum_xhat = 0;
    for (std::int64_t k = 0; k < s.rows; ++k) {
      r.y[i(k)] = (x[i(k)] - mean) * scale * w[c] + b[c];
      sum += dy[i(k)];
      sum_xhat += dy[i(k)] * (x[i(k)] - mean) * scale;
    }
    for (std::int64_t k = 0; k < s.rows; ++k) {
      const double xhat = (x[i(k)] - mean) * scale;
      r.dx[i(k)] = w[c] * scale * (dy[i(k)] - sum / n - xhat * sum_xhat / n);
    }
    r.stats[c] = mean;
    r.stats[s.cols + c] = variance;
    r.sums[c] = sum;
    r.sums[s.cols + c] = sum_xhat;
    r.dw.push_back(sum_xhat);
    r.db.push_back(sum);
  }
  return r;
}

TEST_CASE("batch norm equals its definition in both directions", "[backends][cpu]") {
  for (const Columns& s : kColumns) {
    INFO(s.rows << "x" << s.cols);
    const Values x = random_values(s.n(), 1, 3.0), w = random_values(to_size(s.cols), 2);
    const Values b = random_values(to_size(s.cols), 3), dy = random_values(s.n(), 4);
    const Values resid = random_values(s.n(), 5);
    const BatchNormValues r = batch_norm(s, x, w, b, dy);
    const std::size_t two = to_size(2 * s.cols);
    const auto check = [&](KernelKind kind, std::vector<std::int64_t> dims,
                           std::vector<double> scalars, std::vector<KernelInput> in,
                           std::vector<KernelOutput> out, const std::vector<Values>& expected,
                           bool accumulate = false) {
      KernelCase c{kind};
      c.dims = std::move(dims);
      c.scalars = std::move(scalars);
      c.in = std::move(in);
      c.out = std::move(out);
      c.accumulate = accumulate;
      check_case(c, expected, 1e-5, 1e-13);
    };
    const std::vector<std::int64_t> dims = {s.rows, s.cols};
    using K = KernelKind;
    check(K::BatchNormStatistics, dims, {}, {{x}}, {{two}}, {r.stats});
    check(K::BatchNormForward, dims, {kEps}, {{x}, {w}, {b}, {r.stats}, {}}, {{s.n()}}, {r.y});
    check(K::BatchNormForward, dims, {kEps}, {{x}, {w}, {b}, {r.stats}, {resid}}, {{s.n()}},
          {plus(r.y, resid)});
    check(K::BatchNormBackwardSums, dims, {kEps}, {{dy}, {x}, {r.stats}}, {{two}}, {r.sums});
    check(K::BatchNormBackwardWeight, {s.cols}, {}, {{r.sums}},
          {{to_size(s.cols)}, {to_size(s.cols)}}, {r.dw, r.db});
    const Values old_w = random_values(to_size(s.cols), 6),
                 old_b = random_values(to_size(s.cols), 7);
    check(K::BatchNormBackwardWeight, {s.cols}, {}, {{r.sums}},
          {{to_size(s.cols), -1, old_w}, {to_size(s.cols), -1, old_b}},
          {plus(r.dw, old_w), plus(r.db, old_b)}, true);
    if (s.rows == 2) continue;  // with two rows, xhat is the sign of their difference, and dx is 0
    check(K::BatchNormBackwardInput, dims, {kEps, static_cast<double>(s.rows)},
          {{dy}, {x}, {w}, {r.stats}, {r.sums}}, {{s.n()}}, {r.dx});
    check(K::BatchNormBackwardInput, dims, {kEps, static_cast<double>(s.rows)},
          {{dy}, {x}, {w}, {r.stats}, {r.sums}}, {{s.n(), 0}}, {r.dx});
  }
}

TEST_CASE("statistics of parts combine to those of the whole", "[backends][cpu]") {
  const Columns part{40, 21};
  Values whole, each;
  for (unsigned p = 0; p < 3; ++p) {
    const Values x = random_values(part.n(), 10 + p, 1.0 + p);
    const Values stats = batch_norm(part, x, Values(21, 1), Values(21, 0), x).stats;
    whole.insert(whole.end(), x.begin(), x.end());
    each.insert(each.end(), stats.begin(), stats.end());
  }
  KernelCase c{KernelKind::BatchNormCombine};
  c.dims = {3, 21};
  c.in = {{each}};
  c.out = {{42}};
  check_case(c, {batch_norm({120, 21}, whole, Values(21, 1), Values(21, 0), whole).stats}, 1e-6,
             1e-14);
}

TEST_CASE("running statistics move by the momentum, the variance unbiased", "[backends][cpu]") {
  const Values stats = random_values(14, 1), old = random_values(14, 2);
  Values expected = old;
  for (std::size_t i = 0; i < 14; ++i) {
    expected[i] = 0.9 * old[i] + 0.1 * stats[i] * (i < 7 ? 1.0 : 8.0 / 7);
  }
  KernelCase c{KernelKind::BatchNormRunning};
  c.dims = {7};
  c.scalars = {0.1, 8.0 / 7};
  c.in = {{stats}};
  c.out = {{14, -1, old}};
  check_case(c, {expected}, 1e-6, 1e-14);
}

// ---------------------------------------------------------------- pooling, ReLU, SGD

TEST_CASE("max pooling takes the largest and gives it the gradient", "[backends][cpu]") {
  for (const Conv& s :
       {Conv{2, 5, 6, 3, 3, 3, 2}, Conv{1, 4, 4, 35, 35, 3, 1}, Conv{1, 1, 1, 2, 2, 3, 2}}) {
    // Few values, so that windows hold equal ones: the first in row order wins.
    Values x = random_ids(s.x(), 1, 4);
    const Values dy = random_values(s.y(), 2);
    Values y(s.y()), dx(s.x(), 0);
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t oy = 0; oy < s.out_height(); ++oy) {
        for (std::int64_t ox = 0; ox < s.out_width(); ++ox) {
          for (std::int64_t c = 0; c < s.in; ++c) {
            const std::size_t to =
                to_size(((b * s.out_height() + oy) * s.out_width() + ox) * s.in + c);
            std::size_t best = 0;
            double largest = -1;
            for (std::int64_t iy = oy * s.stride - 1; iy <= oy * s.stride + 1; ++iy) {
              for (std::int64_t ix = ox * s.stride - 1; ix <= ox * s.stride + 1; ++ix) {
                if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
                const std::size_t from = to_size(((b * s.height + iy) * s.width + ix) * s.in + c);
                if (x[from] > largest) {
                  largest = x[from];
                  best = from;
                }
              }
            }
            y[to] = largest;
            dx[best] += dy[to];
          }
        }
      }
    }
    KernelCase forward{KernelKind::MaxPoolForward};
    forward.dims = {s.batch, s.height, s.width, s.in, 3, s.stride};
    forward.in = {{x}};
    forward.out = {{s.y()}};
    check_case(forward, {y}, 0, 0);
    KernelCase backward{KernelKind::MaxPoolBackward};
    backward.dims = forward.dims;
    backward.in = {{dy}, {x}};
    backward.out = {{s.x()}};
    check_case(backward, {dx}, 1e-6, 1e-15);
  }
}

TEST_CASE("average pooling is the mean over positions", "[backends][cpu]") {
  const Values x = random_values(3 * 7 * 19, 1), dy = random_values(3 * 19, 2);
  Values y(3 * 19, 0), dx(3 * 7 * 19);
  for (std::size_t b = 0; b < 3; ++b) {
    for (std::size_t p = 0; p < 7; ++p) {
      for (std::size_t c = 0; c < 19; ++c) {
        y[b * 19 + c] += x[(b * 7 + p) * 19 + c] / 7;
        dx[(b * 7 + p) * 19 + c] = dy[b * 19 + c] / 7;
      }
    }
  }
  KernelCase forward{KernelKind::AveragePoolForward};
  forward.dims = {3, 7, 19};
  forward.in = {{x}};
  forward.out = {{y.size()}};
  check_case(forward, {y}, 1e-6, 1e-14);
  KernelCase backward{KernelKind::AveragePoolBackward};
  backward.dims = {3, 7, 19};
  backward.in = {{dy}};
  backward.out = {{dx.size()}};
  check_case(backward, {dx}, 1e-6, 1e-14);
}

TEST_CASE("ReLU keeps what is positive, in place too", "[backends][cpu]") {
  const Values x = random_values(37, 1), dy = random_values(37, 2);
  Values y = x, dx = dy;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] <= 0) y[i] = dx[i] = 0;
  }
  for (const int aliases : {-1, 0}) {
    KernelCase forward{KernelKind::ReluForward};
    forward.dims = {37};
    forward.in = {{x}};
    forward.out = {{37, aliases}};
    check_case(forward, {y}, 0, 0);
    KernelCase backward{KernelKind::ReluBackward};
    backward.dims = {37};
    backward.in = {{dy}, {y}};
    backward.out = {{37, aliases}};
    check_case(backward, {dx}, 0, 0);
  }
}

TEST_CASE("SGD is torch's update with momentum and decay", "[backends][cpu]") {
  const Values grad = random_values(21, 1), w = random_values(21, 2), v = random_values(21, 3);
  Values new_w = w, new_v = v;
  for (std::size_t i = 0; i < grad.size(); ++i) {
    new_v[i] = 0.9 * v[i] + 0.5 * grad[i] + 1e-2 * w[i];
    new_w[i] = w[i] - 0.1 * new_v[i];
  }
  KernelCase c{KernelKind::Sgd};
  c.dims = {21};
  c.scalars = {0.9, 1e-2};
  c.in = {{grad}, {Values{0.5}}};
  c.out = {{21, -1, w}, {21, -1, v}};
  c.context.lr = 0.1;
  check_case(c, {new_w, new_v}, 1e-6, 1e-14);
}

}  // namespace
}  // namespace lockstep::cpu::test
