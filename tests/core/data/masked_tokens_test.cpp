#include "core/data/masked_tokens.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "core/base/documents.hpp"
#include "core/data/dataset.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

constexpr std::int32_t kMask = 3, kEnd = 7;

Samples masked_samples(std::int64_t length, std::int64_t masked) {
  Samples samples;
  samples.kind = SampleKind::Tokens;
  samples.length = length;
  samples.classes = 1000;
  samples.masked = masked;
  samples.mask_token = kMask;
  return samples;
}

struct Sequence {
  std::vector<std::int32_t> tokens, targets;
};
Sequence masked(const Samples& samples, std::vector<std::int32_t> tokens, std::uint64_t seed,
                std::int64_t sample) {
  Sequence out{std::move(tokens), {}};
  out.targets.resize(out.tokens.size());
  mask_tokens(samples, seed, sample, out.tokens, out.targets);
  return out;
}

std::vector<std::int32_t> counted(std::int64_t length) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < length; ++i) tokens.push_back(static_cast<std::int32_t>(100 + i));
  return tokens;
}

TEST_CASE("exactly as many tokens are chosen as are asked for, and only these are changed",
          "[core][data]") {
  const auto tokens = counted(512);
  for (const std::int64_t count : {1, 77, 511, 512}) {
    for (std::int64_t sample = 0; sample < 20; ++sample) {
      const Sequence out = masked(masked_samples(512, count), tokens, 42, sample);
      std::int64_t chosen = 0;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (out.targets[i] == kIgnoredTarget) {
          REQUIRE(out.tokens[i] == tokens[i]);
          continue;
        }
        ++chosen;
        REQUIRE(out.targets[i] == tokens[i]);
      }
      CHECK(chosen == count);
    }
  }
}

TEST_CASE(
    "of the chosen tokens 80 % are hidden, 10 % others and 10 % stay; every position is as "
    "likely",
    "[core][data]") {
  constexpr int kSamples = 4000, kLength = 64, kCount = 10;
  const auto tokens = counted(kLength);
  const Samples samples = masked_samples(kLength, kCount);
  double hidden = 0, stay = 0, other = 0;
  std::vector<int> at(kLength, 0);
  std::map<std::int32_t, int> drawn;
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    const Sequence out = masked(samples, tokens, 1, sample);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (out.targets[i] == kIgnoredTarget) continue;
      ++at[i];
      if (out.tokens[i] == kMask) {
        ++hidden;
      } else if (out.tokens[i] == tokens[i]) {
        ++stay;
      } else {
        ++other;
        ++drawn[out.tokens[i]];
      }
    }
  }
  const double all = double{kSamples} * kCount;
  CHECK(hidden / all == Approx(0.8).margin(0.01));
  CHECK(stay / all == Approx(0.1).margin(0.01));
  CHECK(other / all == Approx(0.1).margin(0.01));
  CHECK(drawn.size() > 900);    // of a thousand tokens
  for (const int count : at) {  // 625 on average, with a deviation of 23
    CHECK(count > 500);
    CHECK(count < 750);
  }
}

TEST_CASE("masks are those of seed and sample, and other ones when a sample is read again",
          "[core][data]") {
  const auto tokens = counted(128);
  const Samples samples = masked_samples(128, 19);
  const Sequence one = masked(samples, tokens, 42, 5), again = masked(samples, tokens, 42, 5);
  CHECK(one.tokens == again.tokens);
  CHECK(one.targets == again.targets);
  CHECK(one.targets != masked(samples, tokens, 43, 5).targets);
  CHECK(one.targets != masked(samples, tokens, 42, 6).targets);
  // They do not depend on what the tokens are.
  std::vector<std::int32_t> others = tokens;
  for (std::int32_t& token : others) token += 500;
  const Sequence of_others = masked(samples, others, 42, 5);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    CHECK((one.targets[i] == kIgnoredTarget) == (of_others.targets[i] == kIgnoredTarget));
  }
}

TEST_CASE("ends of documents are neither chosen nor drawn", "[core][data]") {
  Samples samples = masked_samples(16, 8);
  samples.document_end = kEnd;
  samples.classes = 9;  // of which one draw in nine would be an end
  for (std::int64_t sample = 0; sample < 200; ++sample) {
    std::vector<std::int32_t> tokens(16, 5);
    for (const std::size_t i : {2, 3, 9}) tokens[i] = kEnd;
    const Sequence out = masked(samples, tokens, 42, sample);
    CHECK(std::count(out.tokens.begin(), out.tokens.end(), kEnd) == 3);
    CHECK(std::count(out.targets.begin(), out.targets.end(), kIgnoredTarget) == 8);
    for (const std::size_t i : {2, 3, 9}) CHECK(out.tokens[i] == kEnd);
  }
  // A sample with too few other tokens has fewer targets.
  std::vector<std::int32_t> ends(16, kEnd);
  ends[4] = 5;
  const Sequence out = masked(samples, ends, 42, 0);
  CHECK(std::count(out.targets.begin(), out.targets.end(), kIgnoredTarget) == 15);
  CHECK(out.targets[4] == 5);
}

TEST_CASE("a data set gives masked samples", "[core][data]") {
  const Samples samples = masked_samples(32, 5);
  Samples plain = samples;
  plain.masked = 0;
  const auto source = open_dataset(samples, 9, ""), unmasked = open_dataset(plain, 9, "");
  REQUIRE(source.ok());
  REQUIRE(unmasked.ok());
  std::vector<std::int32_t> tokens(32), targets(32), whole(32), next(32);
  for (std::int64_t sample = 0; sample < 10; ++sample) {
    (*source)(sample, tokens, targets);
    (*unmasked)(sample, whole, next);
    const Sequence expected = masked(samples, whole, 9, sample);
    CHECK(tokens == expected.tokens);
    CHECK(targets == expected.targets);
  }
}

}  // namespace
}  // namespace lockstep
