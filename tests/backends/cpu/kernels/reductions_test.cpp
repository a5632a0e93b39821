#include "tests/backends/cpu/kernels/kernel_case.hpp"

namespace lockstep::cpu::test {
namespace {

TEST_CASE("sum adds all elements, to zero or to what is there", "[backends][cpu]") {
  for (const std::size_t n : {1u, 15u, 16u, 100u, 70001u}) {
    const Values x = random_values(n, 1);
    double expected = 0;
    for (const double v : x) expected += v;
    for (const bool f64 : {false, true}) {
      KernelCase c{KernelKind::Sum};
      c.dims = {static_cast<std::int64_t>(n)};
      c.in = {{x}};
      c.out = {{1, -1, {}, f64}};
      check_case(c, {{expected}}, 1e-7, 1e-13);
      c.accumulate = true;
      c.out[0].initial = {4.0};
      check_case(c, {{expected + 4.0}}, 1e-7, 1e-13);
    }
  }
}

TEST_CASE("norm_squared sums each block by itself, empty blocks too", "[backends][cpu]") {
  struct Shape {
    std::size_t n, blocks;
  };
  for (const Shape& s :
       {Shape{1, 1}, Shape{10, 3}, Shape{7, 7}, Shape{5, 4}, Shape{10000, 16}, Shape{99999, 1}}) {
    INFO(s.n << " in " << s.blocks);
    const Values x = random_values(s.n, 1), old = random_values(s.blocks, 2);
    const std::size_t length = (s.n + s.blocks - 1) / s.blocks;
    Values expected(s.blocks, 0);
    for (std::size_t i = 0; i < s.n; ++i) expected[i / length] += x[i] * x[i];
    for (const bool f64 : {false, true}) {
      KernelCase c{KernelKind::NormSquared};
      c.dims = {static_cast<std::int64_t>(s.n), static_cast<std::int64_t>(s.blocks)};
      c.in = {{x}};
      c.out = {{s.blocks, -1, {}, f64}};
      check_case(c, {expected}, 1e-7, 1e-13);
      c.accumulate = true;
      c.out[0].initial = old;
      Values added = expected;
      for (std::size_t b = 0; b < s.blocks; ++b) added[b] += old[b];
      check_case(c, {added}, 1e-7, 1e-13);
    }
  }
}

TEST_CASE("norm_squared of float32 values is a float64 sum", "[backends][cpu]") {
  // 2^24 + many ones: a float32 sum would stay at 2^24.
  Values x(1001, 1.0);
  x[0] = 4096.0;
  KernelCase c{KernelKind::NormSquared};
  c.dtype = DType::F32;
  c.dims = {1001, 1};
  c.in = {{x}};
  c.out = {{1, -1, {}, true}};
  for (const auto& out : run_everywhere(c)) CHECK(out[0][0] == 16777216.0 + 1000.0);
}

TEST_CASE("clip_coefficient scales only gradients longer than the limit", "[backends][cpu]") {
  const auto clip = [](const Values& squares, double max_norm) {
    KernelCase c{KernelKind::ClipCoefficient};
    c.dims = {static_cast<std::int64_t>(squares.size())};
    c.scalars = {max_norm};
    c.in = {{squares}};
    c.out = {{1}, {1}};
    return c;
  };
  check_case(clip({9, 16}, 1.0), {{1.0 / (5.0 + 1e-6)}, {5.0}}, 1e-7, 1e-15);
  check_case(clip({9, 16}, 6.0), {{1.0}, {5.0}}, 0, 0);
  check_case(clip({9, 16}, 0.0), {{1.0}, {5.0}}, 0, 0);
  check_case(clip({0}, 1.0), {{1.0}, {0.0}}, 0, 0);
}

TEST_CASE("supports refuses types that no kernel here computes in", "[backends][cpu]") {
  Kernel kernel;
  kernel.kind = KernelKind::GeluForward;
  kernel.in = {{0, DType::F32, 0}};
  kernel.out = {{1, DType::F32, 0}};
  CHECK(supports(kernel));
  kernel.in[0].dtype = DType::F64;
  CHECK_FALSE(supports(kernel));  // operands of another type than the arithmetic
  kernel.in[0].dtype = kernel.out[0].dtype = kernel.dtype = DType::I32;
  CHECK_FALSE(supports(kernel));
}

TEST_CASE("the instruction set in use is one of the four", "[backends][cpu]") {
  CHECK((cpu_isa() == "baseline" || cpu_isa() == "x86-64-v3" || cpu_isa() == "x86-64-v4" ||
         cpu_isa() == "x86-64-v4-amx"));
  CHECK(kernel_tables().count >= 1);
}

}  // namespace
}  // namespace lockstep::cpu::test
