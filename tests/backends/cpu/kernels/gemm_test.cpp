#include "tests/backends/cpu/kernels/kernel_case.hpp"

namespace lockstep::cpu::test {
namespace {

struct Shape {
  std::int64_t m, n, k;
};

/// c = op(a) op(b) [+ bias] [+ resid] [+ c], one sum at a time in float64.
Values product(Shape s, bool ta, bool tb, const Values& a, const Values& b, const Values& bias,
               const Values& resid, const Values& c) {
  Values out(static_cast<std::size_t>(s.m * s.n));
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        sum += a[ta ? k * s.m + i : i * s.k + k] * b[tb ? j * s.k + k : k * s.n + j];
      }
      const auto at = static_cast<std::size_t>(i * s.n + j);
      if (!bias.empty()) sum += bias[j];
      if (!resid.empty()) sum += resid[at];
      if (!c.empty()) sum += c[at];
      out[at] = sum;
    }
  }
  return out;
}

KernelCase gemm_case(Shape s, bool ta, bool tb, Values a, Values b, Values bias, Values resid,
                     Values c) {
  KernelCase kernel{KernelKind::Gemm};
  kernel.dims = {s.m, s.n, s.k, ta, tb};
  kernel.in = {{std::move(a)}, {std::move(b)}, {std::move(bias)}, {std::move(resid)}};
  kernel.accumulate = !c.empty();
  kernel.out = {{static_cast<std::size_t>(s.m * s.n), -1, std::move(c)}};
  return kernel;
}

void check_gemm(Shape s, bool ta, bool tb, bool with_bias, bool with_resid, bool accumulate) {
  INFO(s.m << "x" << s.n << "x" << s.k << " ta " << ta << " tb " << tb << " bias " << with_bias
           << " resid " << with_resid << " accumulate " << accumulate);
  const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
  const Values a = random_values(size(s.m, s.k), 1), b = random_values(size(s.k, s.n), 2);
  const Values bias = with_bias ? random_values(size(s.n, 1), 3) : Values{};
  const Values resid = with_resid ? random_values(size(s.m, s.n), 4) : Values{};
  const Values c = accumulate ? random_values(size(s.m, s.n), 5) : Values{};
  check_case(gemm_case(s, ta, tb, a, b, bias, resid, c), {product(s, ta, tb, a, b, bias, resid, c)},
             2e-6, 1e-14);
}

TEST_CASE("gemm equals the sum of products for every transposition and odd size",
          "[backends][cpu]") {
  const Shape shapes[] = {{1, 1, 1},    {1, 7, 3},     {5, 1, 9},    {14, 32, 16}, {15, 33, 17},
                          {13, 31, 64}, {6, 16, 5},    {28, 64, 8},  {3, 100, 2},  {97, 3, 41},
                          {64, 64, 64}, {29, 65, 300}, {70, 45, 257}};
  for (const Shape s : shapes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) check_gemm(s, ta, tb, false, false, false);
    }
  }
}

TEST_CASE("gemm adds bias, residual and old values in every combination", "[backends][cpu]") {
  for (const Shape s : {Shape{17, 37, 19}, Shape{28, 64, 600}}) {
    for (int mask = 1; mask < 8; ++mask) {
      check_gemm(s, false, true, (mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0);
    }
  }
}

TEST_CASE("gemm larger than its cache blocks is exact on integers", "[backends][cpu]") {
  // Small integers: every partial sum is exact in float32, so the result must be, too.
  for (const Shape s : {Shape{371, 70, 530}, Shape{20, 3300, 40}, Shape{700, 35, 9}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        Values a = random_ids(static_cast<std::size_t>(s.m * s.k), 7, 5);
        Values b = random_ids(static_cast<std::size_t>(s.k * s.n), 8, 7);
        for (double& x : b) x -= 3;
        check_case(gemm_case(s, ta, tb, a, b, {}, {}, {}), {product(s, ta, tb, a, b, {}, {}, {})},
                   0, 0);
      }
    }
  }
}

TEST_CASE("gemm may add to its residual in place", "[backends][cpu]") {
  const Shape s{45, 70, 33};
  const Values a = random_values(45 * 33, 1), b = random_values(33 * 70, 2);
  const Values x = random_values(45 * 70, 3);
  KernelCase c = gemm_case(s, false, false, a, b, {}, x, {});
  c.out = {{45 * 70, 3}};
  check_case(c, {product(s, false, false, a, b, {}, x, {})}, 2e-6, 1e-14);
}

TEST_CASE("gemm with an empty sum leaves bias plus residual", "[backends][cpu]") {
  const Values bias = random_values(20, 1), resid = random_values(60, 2);
  KernelCase c = gemm_case({3, 20, 0}, false, false, {}, {}, bias, resid, {});
  c.in[0].values = c.in[1].values = Values(1);  // present, never read
  check_case(c, {product({3, 20, 0}, false, false, {}, {}, bias, resid, {})}, 1e-7, 1e-16);
}

TEST_CASE("a row of a product does not depend on the other rows", "[backends][cpu]") {
  const Shape s{40, 50, 300};
  for (const DType dtype : {DType::F32, DType::F64}) {
    const Values a = random_values(40 * 300, 1), b = random_values(300 * 50, 2);
    KernelCase all = gemm_case(s, false, false, a, b, {}, {}, {});
    all.dtype = dtype;
    const Values whole = run(all)[0];
    for (const std::int64_t first : {0, 13, 39}) {
      KernelCase one =
          gemm_case({1, 50, 300}, false, false,
                    Values(a.begin() + first * 300, a.begin() + (first + 1) * 300), b, {}, {}, {});
      one.dtype = dtype;
      CHECK(bit_equal(run(one)[0],
                      Values(whole.begin() + first * 50, whole.begin() + (first + 1) * 50)));
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu::test
