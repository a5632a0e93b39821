// Compares the kernels of backends/cuda, whose source is run by fibers, with their definitions.
#include <map>

#include "tests/backends/cuda/emulated_gpu.hpp"
#include "tests/integration/fused_pair.hpp"
#include "tests/integration/kernel_conformance.hpp"

using namespace lockstep;
using test::ConformanceCase;
using test::ConformanceRun;

namespace {

/// The tolerance, relative to the largest value of an output. A bfloat16 has 8 bits; tensor cores
/// round the weights of attention to it once more, and rounding at random goes twice as far as to
/// nearest.
double tolerance(DType dtype, bool stochastic) {
  if (dtype == DType::BF16) return stochastic ? 0x1p-7 : 6e-3;
  if (dtype == DType::F16) return 1e-3;
  return dtype == DType::F64 ? 2e-14 : 3e-6;
}

/// Of output `i`, which may be of fewer bits than the kernel's own.
double tolerance(const Kernel& kernel, std::size_t i, bool stochastic) {
  // A column of a basis is made of those before it, which have been rounded.
  const double roundings = kernel.kind == KernelKind::Orthonormalize ? 2 : 1;
  return roundings *
         std::max(tolerance(kernel.dtype, stochastic),
                  kernel.out[i].present() ? tolerance(kernel.out[i].dtype, stochastic) : 0);
}

bool same_bits(const std::vector<test::Numbers>& a, const std::vector<test::Numbers>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].empty() && std::memcmp(a[i].data(), b[i].data(), a[i].size() * 8) != 0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("every kernel of the GPU, run by fibers, equals its definition", "[integration][cuda]") {
  namespace emulation = cuda::emulation;
  cuda::test::FakeGpu gpu(1, cuda::test::emulated_kernels());
  std::map<KernelKind, int> covered;
  const auto check = [&](const ConformanceCase& c, const ConformanceRun& run,
                         const std::vector<test::Numbers>& expected) {
    const DType dtype = run.kernel().dtype;
    INFO(test::text(c, dtype));
    REQUIRE(gpu.supports(run.kernel()));
    const auto results = run.run(gpu, 0);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("output " << i);
      CHECK(test::distance(results[i], expected[i]) <= tolerance(run.kernel(), i, c.stochastic));
    }
    // The other order of threads gives the same bits, so no barrier is missing.
    emulation::set_order(emulation::Order::Descending);
    CHECK(same_bits(run.run(gpu, 0), results));
    emulation::set_order(emulation::Order::Ascending);
    // Addresses that allow reads of single elements only.
    const auto shifted = run.run(gpu, 1);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("output " << i << ", unaligned");
      CHECK(test::distance(shifted[i], expected[i]) <= tolerance(run.kernel(), i, c.stochastic));
    }
    ++covered[c.kind];
  };
  test::for_each_run(test::conformance_cases(false),
                     {DType::F32, DType::F64, DType::BF16, DType::F16}, check);
  for (int k = 0; k < kNumKernelKinds; ++k) {
    const auto kind = static_cast<KernelKind>(k);
    INFO(info(kind).name);
    CHECK((covered[kind] > 0) == (cuda::emulated::registry()[kind].launch != nullptr));
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
