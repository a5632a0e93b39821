// Tests what the conformance of kernels (tests/integration) leaves out: NaNs, and sums over ranks.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/kernels/registry.hpp"
#include "core/calibration/calibration.hpp"
#include "tests/catch.hpp"

namespace lockstep::cuda::emulated {
namespace {

template <class T>
std::byte* bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}
void launch(const KernelCall& call) {
  Queue queue;
  registry()[call.kernel->kind].launch(call, queue);
  if (!queue.status()) FAIL(to_string(queue.status().error()));
}

/// The loss of two rows of so many logits. One logit in the second row, which is not the target, is
/// `odd`.
float loss(std::int64_t cols, float odd, bool parallel) {
  const auto width = static_cast<std::size_t>(cols);
  std::vector<float> logits(2 * width, 0.5f), stats(6), result(1);
  std::vector<std::int32_t> targets = {0, 1};
  logits[2 * width - 1] = odd;
  std::vector<double> losses(2);
  if (!parallel) {
    const Kernel kernel = calibration_kernel(KernelKind::CrossEntropy, DType::F32, {2, cols}, {1});
    launch({&kernel,
            {bytes(logits), bytes(targets)},
            {bytes(logits), bytes(result)},
            bytes(losses),
            {}});
    return result[0];
  }
  const Kernel part = calibration_kernel(KernelKind::CrossEntropyStats, DType::F32, {2, cols});
  launch({&part, {bytes(logits), bytes(targets)}, {bytes(stats)}, nullptr, {}});
  const Kernel whole =
      calibration_kernel(KernelKind::CrossEntropyParallel, DType::F32, {2, cols, 1}, {1});
  launch({&whole,
          {bytes(logits), bytes(targets), bytes(stats)},
          {bytes(logits), bytes(result)},
          bytes(losses),
          {}});
  return result[0];
}

}  // namespace

TEST_CASE("a logit that is not a number makes the loss none", "[backends][cuda]") {
  for (const std::int64_t cols : {7, 64, 3000}) {
    for (const bool parallel : {false, true}) {
      INFO(cols << (parallel ? " in parts" : ""));
      CHECK(loss(cols, 0.5f, parallel) == Approx(2 * std::log(static_cast<double>(cols))));
      CHECK(std::isnan(loss(cols, std::numeric_limits<float>::quiet_NaN(), parallel)));
    }
  }
}

TEST_CASE("sums over ranks are taken in their order, in float32 of bfloat16", "[backends][cuda]") {
  constexpr std::int64_t kElements = 300;
  const auto check = [](DType dtype, auto from, auto to) {
    using T = decltype(from(0.0));
    std::vector<std::vector<T>> ranks(3);
    for (std::size_t r = 0; r < 3; ++r) {
      for (int i = 0; i < kElements; ++i) ranks[r].push_back(from(i % 50 + 1.0 / (1 << (3 * r))));
    }
    std::vector<T> other(kElements);
    const std::vector<const std::byte*> sources = {bytes(ranks[0]), bytes(ranks[1]),
                                                   bytes(ranks[2])};
    const std::vector<std::byte*> targets = {bytes(ranks[1]), bytes(other)};  // one is a source
    std::vector<double> expected;
    for (std::size_t i = 0; i < kElements; ++i) {
      double sum = 0;
      for (const auto& rank : ranks) sum += to(rank[i]);
      expected.push_back(to(from(sum)));
    }
    Queue queue;
    add_in_order(dtype, kElements, sources, targets, false, queue);
    REQUIRE(queue.status().ok());
    for (std::size_t i = 0; i < kElements; ++i) {
      CHECK(to(ranks[1][i]) == expected[i]);
      CHECK(to(other[i]) == expected[i]);
    }
  };
  const auto same = [](auto x) { return static_cast<double>(x); };
  check(
      DType::F64, [](double x) { return x; }, same);
  check(
      DType::F32, [](double x) { return static_cast<float>(x); }, same);
  check(
      DType::I32, [](double x) { return static_cast<std::int32_t>(x); }, same);
  check(
      DType::BF16, [](double x) { return to_bf16(static_cast<float>(x)); },
      [](BF16 x) { return static_cast<double>(to_float(x)); });
}

}  // namespace lockstep::cuda::emulated
