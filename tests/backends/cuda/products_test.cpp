// Tests products of experts that are given to a library in batches. The library stands in for
// cuBLASLt, multiplies on the CPU, and is compared with our own kernel.
#include <cstring>
#include <random>
#include <vector>

#include "backends/cuda/kernels/registry.hpp"
#include "core/calibration/calibration.hpp"
#include "tests/catch.hpp"

namespace lockstep::cuda::emulated {
namespace {

/// Takes products of at most `most` matrices, and computes them in float64 by nested loops.
struct Library : Products {
  explicit Library(std::int64_t largest) : most(largest) {}
  Result<bool> multiply(const KernelCall& call, const KernelCall*, const Batch& batch, StreamHandle,
                        std::byte*) override {
    if (batch.count > most) return false;
    ++calls;
    const auto& d = call.kernel->dims;
    const auto *a = input<double>(call, 0), *b = input<double>(call, 1);
    const double* bias = input<double>(call, 2);
    double* c = output<double>(call, 0);
    for (std::int64_t p = 0; p < batch.count; ++p) {
      for (std::int64_t i = 0; i < d[0]; ++i) {
        for (std::int64_t j = 0; j < d[1]; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < d[2]; ++k) {
            sum += a[p * batch.a + (d[3] != 0 ? k * d[0] + i : i * d[2] + k)] *
                   b[p * batch.b + (d[4] != 0 ? j * d[2] + k : k * d[1] + j)];
          }
          if (bias != nullptr) sum += bias[p * batch.bias + j];
          double& to = c[p * batch.c + i * d[1] + j];
          to = call.kernel->accumulate ? to + sum : sum;
        }
      }
    }
    return true;
  }
  std::int64_t most;
  int calls = 0;
};

/// Output 0 after one launch. Operands are random, but the same every time.
std::vector<double> launched(const Kernel& kernel, Library* library) {
  std::mt19937 random(3);
  std::vector<std::vector<double>> memory;
  const auto operand = [&](std::int64_t elements) {
    auto& values = memory.emplace_back(static_cast<std::size_t>(elements));
    for (double& x : values) x = static_cast<double>(random() % 2001) / 1000 - 1;
    return reinterpret_cast<std::byte*>(values.data());
  };
  KernelCall call;
  call.kernel = &kernel;
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    if (kernel.in[i].present()) call.in[i] = operand(input_elements(kernel, i));
  }
  const std::size_t result = memory.size();
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    if (kernel.out[i].present()) call.out[i] = operand(output_elements(kernel, i));
  }
  call.scratch = operand(registry().scratch_bytes(kernel) / 8 + 1);
  Queue queue(nullptr, library, nullptr);
  registry()[kernel.kind].launch(call, queue);
  REQUIRE(queue.status().ok());
  return memory[result];
}

void check_batches(Kernel kernel, int batches, int products) {
  for (const bool accumulate : {false, true}) {
    kernel.accumulate = accumulate && kernel.kind == KernelKind::GroupedGemmWeight;
    const auto expected = launched(kernel, nullptr);
    Library whole(1000), single(1), none(0);
    for (Library* library : {&whole, &single, &none}) {
      const auto results = launched(kernel, library);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        REQUIRE(results[i] == Approx(expected[i]).epsilon(1e-13).margin(1e-13));
      }
    }
    CHECK(whole.calls == batches);
    CHECK(single.calls == products);
    CHECK(none.calls == 0);
  }
}

}  // namespace

TEST_CASE(
    "products by expert are one batch for each rank whose tokens they have, or for each expert",
    "[backends][cuda]") {
  const auto kernel = [](KernelKind kind, const std::vector<std::int64_t>& dims, int optional) {
    return calibration_kernel(kind, DType::F64, dims, {}, optional, optional);
  };
  using K = KernelKind;
  for (const int bias : {0, 1}) {
    for (const std::int64_t transposed : {0, 1}) {
      check_batches(kernel(K::GroupedGemm, {5, 2, 3, 7, 4, transposed}, bias), 2, 10);
      check_batches(kernel(K::GroupedGemm, {2, 4, 3, 7, 4, transposed}, bias), 2, 8);
      check_batches(kernel(K::GroupedGemm, {1, 1, 3, 7, 4, transposed}, bias), 1, 1);
    }
    check_batches(kernel(K::GroupedGemmWeight, {4, 3, 6, 7, 5}, bias), 3, 12);
  }
}

}  // namespace lockstep::cuda::emulated
