#include "core/generate/sampling.hpp"

#include <array>
#include <cmath>
#include <vector>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

const std::vector<float> kLogits = {0.5F, 2.0F, -1.0F, 1.0F};

/// How often each token is drawn at 20,000 positions.
std::vector<double> shares(const Sampling& rules) {
  std::vector<double> counts(kLogits.size());
  for (int i = 0; i < 20000; ++i) counts[next_token(kLogits, rules, i)] += 1.0 / 20000;
  return counts;
}

}  // namespace

TEST_CASE("without temperature the most probable token comes, the lowest of equal ones",
          "[core][generate]") {
  CHECK(next_token(kLogits, {.temperature = 0}, 7) == 1);
  CHECK(next_token(std::vector<float>{1, 3, 3}, {.temperature = 0}, 0) == 1);
}

TEST_CASE("tokens are drawn as often as the softmax of their logits says", "[core][generate]") {
  const double temperature = GENERATE(1.0, 0.5);
  const auto drawn = shares({.temperature = temperature, .seed = 3});
  double total = 0;
  for (const float x : kLogits) total += std::exp(x / temperature);
  for (std::size_t i = 0; i < kLogits.size(); ++i) {
    CHECK(drawn[i] == Approx(std::exp(kLogits[i] / temperature) / total).margin(0.012));
  }
}

TEST_CASE("top-k and top-p leave out the less probable tokens, and share their part",
          "[core][generate]") {
  const auto two = shares({.top_k = 2});
  CHECK(two[0] + two[2] == 0);
  CHECK(two[1] == Approx(std::exp(1.0) / (1 + std::exp(1.0))).margin(0.012));
  // Probabilities: 0.609 of token 1, 0.224 of token 3, 0.136 of token 0.
  const auto most = shares({.top_p = 0.62});
  CHECK(most[0] + most[2] == 0);
  CHECK(most[3] > 0);
  CHECK(shares({.top_p = 0.6})[1] == Approx(1));
}

TEST_CASE("the same seed draws the same tokens, another one others", "[core][generate]") {
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    CHECK(next_token(kLogits, {.seed = 1}, i) == next_token(kLogits, {.seed = 1}, i));
    different += next_token(kLogits, {.seed = 1}, i) != next_token(kLogits, {.seed = 2}, i);
  }
  CHECK(different > 20);
}

}  // namespace lockstep
