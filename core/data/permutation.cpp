#include "core/data/permutation.hpp"

#include <bit>

#include "core/base/mix.hpp"

namespace lockstep {
namespace {
// Four rounds make a pseudorandom permutation; small domains mix more slowly and need more.
constexpr int kRounds = 6;
}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t key)
    : size_(static_cast<std::uint64_t>(size)),
      key_(key),
      half_bits_((std::bit_width(size_ - 1) + 1) / 2) {}

std::int64_t Permutation::operator()(std::int64_t index) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t x = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = x >> half_bits_;
    std::uint64_t right = x & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (mix64(mix64(key_ + round) ^ right) & mask);
      left = right;
      right = next;
    }
    x = (left << half_bits_) | right;
  } while (x >= size_);
  return static_cast<std::int64_t>(x);
}

}  // namespace lockstep
