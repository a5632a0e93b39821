// Random rounding of AdamW's weights in bfloat16: its probabilities, and what it keeps of updates
// that rounding to nearest loses.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/kernels/kernels.hpp"
#include "core/base/bfloat16.hpp"
#include "core/base/random_rounding.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kElements = 20000;

std::vector<bfloat16> narrow(const std::vector<float>& values) {
  return std::vector<bfloat16>(values.begin(), values.end());
}

/// By how much the mean of the weights moves in so many AdamW steps in bfloat16, when each element
/// has a constant gradient.
double displacement(bool stochastic, std::uint64_t seed, int steps, double lr) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> weights(1.0F, 1.9F), gradients(0.5F, 1.5F);
  std::vector<float> start(kElements), slope(kElements);
  for (float& x : start) x = static_cast<float>(bfloat16(weights(random)));
  for (float& x : slope) x = gradients(random);
  std::vector<bfloat16> w = narrow(start), g = narrow(slope), m(kElements), v(kElements);
  Kernel kernel;
  kernel.kind = KernelKind::AdamW;
  kernel.dtype = DType::BF16;
  kernel.stochastic = stochastic;
  kernel.dims = {kElements};
  kernel.scalars = {0.9, 0.95, 1e-8, 0.0};
  kernel.in = {{0, DType::BF16, 0}, {}};
  kernel.out = {{1, DType::BF16, 0}, {2, DType::BF16, 0}, {3, DType::BF16, 0}};
  std::vector<std::byte*> buffers;
  for (auto* x : {&g, &w, &m, &v}) buffers.push_back(reinterpret_cast<std::byte*>(x->data()));
  ThreadTeam team(2);
  for (int step = 0; step < steps; ++step) {
    cpu::run_kernel(kernel, buffers, {step, lr, false, seed}, team);
  }
  double sum = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    sum += static_cast<double>(static_cast<float>(w[i])) - static_cast<double>(start[i]);
  }
  return sum / static_cast<double>(kElements);
}

}  // namespace

TEST_CASE("a float32 becomes the bfloat16 above it for as many random bits as its fraction says",
          "[backends][cpu]") {
  for (const float x : {1.0F + 0x1p-9F, -1.0F - 0x3p-12F, 3.7e-5F, -2.9e20F, 0.3F}) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const float toward_zero = std::bit_cast<float>(bits & 0xffff0000U);
    const float away = std::bit_cast<float>((bits & 0xffff0000U) + 0x10000U);
    std::uint32_t up = 0;
    for (std::uint32_t random = 0; random < 0x10000U; ++random) {
      const float y = rounded_at_random(x, random);
      REQUIRE((y == toward_zero || y == away));
      if (y == away) ++up;
    }
    CHECK(up == (bits & 0xffffU));  // of 65536: unbiased
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (const float exact : {0.0F, 1.0F, -1.5F, inf, -inf}) {
    CHECK(rounded_at_random(exact, 0xffffU) == exact);
  }
  CHECK(std::isnan(rounded_at_random(std::nanf(""), 0xffffU)));
}

TEST_CASE("random bits of elements, steps and seeds are uniform and independent",
          "[backends][cpu]") {
  constexpr int kDraws = 100000;
  std::mt19937 random(7);
  const auto draw = [&] { return static_cast<float>(random()) * 0x1p-32F; };
  std::vector<int> counts(16);
  int same_element = 0, same_seed = 0;
  const std::uint64_t key = rounding_key(42, 3);
  for (int i = 0; i < kDraws; ++i) {
    const float m = draw(), v = draw(), g = draw();
    const auto of = [&](std::uint64_t k) { return rounding_bits(k, 1.0F, m, v, g) >> 12; };
    ++counts[of(key)];
    same_element += of(key) == of(rounding_key(42, 4)) ? 1 : 0;
    same_seed += of(key) == of(rounding_key(43, 3)) ? 1 : 0;
  }
  // Sixteenths, within five standard deviations.
  const double expected = kDraws / 16.0, tolerance = 5 * std::sqrt(kDraws * 15.0 / 256);
  for (const int count : counts) CHECK(std::abs(count - expected) < tolerance);
  CHECK(std::abs(same_element - expected) < tolerance);
  CHECK(std::abs(same_seed - expected) < tolerance);
}

TEST_CASE("updates of a sixteenth of a bfloat16's spacing add up under random rounding",
          "[backends][cpu]") {
  // Constant gradients: AdamW moves every weight by about lr in each step. Spacing at 1 to 2: 2^-7.
  constexpr double kLr = 0x1p-11;
  constexpr int kSteps = 64;
  CHECK(displacement(false, 1, kSteps, kLr) == 0);
  const double moved = displacement(true, 1, kSteps, kLr);
  CHECK(moved == Approx(-kSteps * kLr).epsilon(0.03));
  CHECK(displacement(true, 1, kSteps, kLr) == moved);
  CHECK(displacement(true, 2, kSteps, kLr) != moved);
}

}  // namespace lockstep
