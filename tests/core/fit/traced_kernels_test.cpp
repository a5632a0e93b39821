#include "core/fit/traced_kernels.hpp"

#include "core/calibration/calibration.hpp"
#include "core/cost/kernel_time.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

ClusterSpec a100() {
  std::vector<Error> errors;
  const ClusterSpec cluster = load_cluster("a100-80", errors);
  REQUIRE(errors.empty());
  return cluster;
}

TracedTensor tensor(std::vector<std::int64_t> dims, const std::string& type = "c10::BFloat16") {
  return {std::move(dims), {}, type};
}

/// Kernels as a machine runs them whose constants are `truth`'s.
std::vector<TracedKernel> kernels_of(const ClusterSpec& truth) {
  std::vector<TracedKernel> kernels;
  std::int64_t call = 0;
  for (const std::int64_t n : {4096, 8192, 16384}) {
    const Kernel product = calibration_kernel(KernelKind::Gemm, DType::BF16, {2048, n, 4096, 0, 0});
    const Seconds time = kernel_time(product, truth.device) - truth.device.launch_overhead;
    kernels.push_back({"aten::mm",
                       call++,
                       {tensor({2048, 4096}), tensor({4096, n})},
                       "gemm",
                       time,
                       truth.device.launch_overhead});
    // out = a + b: three times the tensor's bytes at the rate of copies.
    const double bytes = 3.0 * 2 * 2048 * static_cast<double>(n);
    kernels.push_back({"aten::add",
                       call++,
                       {tensor({2048, n}), tensor({2048, n}), tensor({}, "Scalar")},
                       "add",
                       Seconds{bytes / copy_rate(truth.device).v},
                       truth.device.launch_overhead});
  }
  return kernels;
}

}  // namespace

TEST_CASE("kernel times by shape give back the card that they were made of", "[fit]") {
  ClusterSpec truth = a100();
  truth.device.matmul_efficiency = 0.6;
  truth.device.memory_bandwidth = {1700e9};
  truth.device.launch_overhead = {4e-6};
  const auto traced = observations_of(kernels_of(truth), a100(), "t.json");
  REQUIRE(traced.ok());
  CHECK(traced->rows.size() == 6);  // the smallest sum stays in a cache
  const auto fit = fit_constants_to(
      traced->rows,
      *parse_fit_targets("matmul_efficiency,memory_bandwidth_gb_s,launch_overhead_us"));
  REQUIRE(fit.ok());
  CHECK(fit->constants[0].value == Approx(0.6).epsilon(1e-3));
  CHECK(fit->constants[1].value == Approx(1700).epsilon(1e-3));
  CHECK(fit->constants[2].value == Approx(4).epsilon(1e-3));
}

TEST_CASE("kernels of one call add up, and calls of one shape are one row", "[fit]") {
  const std::vector<TracedTensor> inputs = {tensor({512, 64}), tensor({64, 512})};
  const std::vector<TracedKernel> kernels = {{"aten::mm", 0, inputs, "gemm", {30e-6}, {}},
                                             {"aten::mm", 0, inputs, "reduce", {10e-6}, {}},
                                             {"aten::mm", 1, inputs, "gemm", {50e-6}, {}},
                                             {"aten::mm", 2, inputs, "gemm", {90e-6}, {}},
                                             {"aten::softmax", 3, inputs, "softmax", {180e-6}, {}}};
  const auto traced = observations_of(kernels, a100(), "t.json");
  REQUIRE(traced.ok());
  REQUIRE(traced->rows.size() == 1);
  CHECK(traced->rows[0].name == "aten::mm bfloat16 512x512x64 (3)");
  CHECK(traced->rows[0].measured.v == Approx(50e-6));  // of 40, 50 and 90
  CHECK(traced->remarks ==
        std::vector<std::string>{"aten::softmax not compared: 50 % of the kernels' time"});
}

TEST_CASE("a trace without shapes says how to get them", "[fit]") {
  const auto traced = observations_of({{"aten::mm", 0, {}, "gemm", {1e-6}, {}}}, a100(), "t.json");
  REQUIRE(!traced.ok());
  CHECK_THAT(traced.error().message, ContainsSubstring("profile with record_shapes=True"));
}
