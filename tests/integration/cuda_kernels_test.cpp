// The kernels of backends/cuda against float64 on the CPU: their source, run by fibers.
#include <map>

#include "tests/backends/cuda/cpu_kernels.hpp"
#include "tests/backends/cuda/emulated_gpu.hpp"
#include "tests/integration/fused_pair.hpp"
#include "tests/integration/kernel_conformance.hpp"

using namespace lockstep;
using test::ConformanceCase;
using test::ConformanceRun;

namespace {

/// Relative to the largest value of an output. A bfloat16 has 8 bits; tensor cores round the
/// weights of attention to it once more, and rounding at random goes twice as far as to nearest.
double tolerance(DType dtype, bool stochastic = false) {
  if (dtype == DType::BF16) return stochastic ? 0x1p-7 : 6e-3;
  return dtype == DType::F64 ? 1e-13 : 5e-6;
}

std::string text(const ConformanceCase& c, DType dtype) {
  std::string out = std::string(info(c.kind).name) + " " + std::string(to_string(dtype));
  for (const std::int64_t d : c.dims) out += " " + std::to_string(d);
  return out + (c.accumulate ? " accumulating" : "");
}

bool same_bits(const std::vector<test::Numbers>& a, const std::vector<test::Numbers>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].empty() && std::memcmp(a[i].data(), b[i].data(), a[i].size() * 8) != 0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("every kernel of the GPU, run by fibers, equals float64 on the CPU",
          "[integration][cuda]") {
  namespace emulation = cuda::emulation;
  cuda::test::FakeGpu gpu(1, cuda::test::emulated_kernels());
  std::map<KernelKind, int> covered;
  for (const ConformanceCase& c : test::conformance_cases(false)) {
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16}) {
      const ConformanceRun run(c, dtype);
      INFO(text(c, dtype));
      REQUIRE(gpu.supports(run.kernel()));
      const auto expected = run.reference();
      const auto results = run.run(gpu, 0);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("output " << i);
        CHECK(test::distance(results[i], expected[i]) <= tolerance(dtype, c.stochastic));
      }
      // In the other order of threads, to the last bit: no barrier is missing.
      emulation::set_order(emulation::Order::Descending);
      CHECK(same_bits(run.run(gpu, 0), results));
      emulation::set_order(emulation::Order::Ascending);
      // From addresses that allow single elements only.
      const auto shifted = run.run(gpu, 1);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("output " << i << ", unaligned");
        CHECK(test::distance(shifted[i], expected[i]) <= tolerance(dtype, c.stochastic));
      }
    }
    ++covered[c.kind];
  }
  for (int k = 0; k < kNumKernelKinds; ++k) {
    const auto kind = static_cast<KernelKind>(k);
    INFO(info(kind).name);
    CHECK((covered[kind] > 0) == (cuda::emulated::registry()[kind].launch != nullptr));
  }
}

TEST_CASE("every kernel of the CPU in bfloat16, statistics beside it in float32, equals float64",
          "[integration]") {
  cuda::test::FakeGpu cpu(1, cuda::test::cpu_kernels());
  for (const ConformanceCase& c : test::conformance_cases(false)) {
    const ConformanceRun run(c, DType::BF16);
    INFO(text(c, DType::BF16));
    REQUIRE(cpu.supports(run.kernel()));
    const auto expected = run.reference();
    const auto results = run.run(cpu, 1);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("output " << i);
      const bool wide = run.kernel().out[i].dtype == DType::F32;
      // Rounded at random, a value may go to the farther of its neighbours.
      const double most = tolerance(wide ? DType::F32 : DType::BF16) * (c.stochastic ? 2 : 1);
      CHECK(test::distance(results[i], expected[i]) <= most);
    }
  }
}

TEST_CASE("a pair that is fused is compared in all that it must leave", "[integration][cuda]") {
  auto kernels = cuda::test::emulated_kernels();
  cuda::test::FakeGpu apart(1, kernels);
  kernels.fuses = true;
  cuda::test::FakeGpu together(1, kernels);
  for (const bool backward : {false, true}) {
    const test::FusedPair pair(9, 16, 5, backward, DType::BF16);
    CHECK(pair.run(apart, true).empty());
    const auto expected = pair.run(apart, false);
    CHECK(expected.size() == (backward ? 1 : 2));
    CHECK(pair.run(together, true) == expected);
  }
}
