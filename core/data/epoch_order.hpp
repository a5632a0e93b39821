// EpochOrder: tells which sample of a data set is the s-th sample of training.
#pragma once

#include <cstdint>

#include "core/base/mix.hpp"
#include "core/data/permutation.hpp"

namespace lockstep {

/// Sample s of training belongs to epoch s / size and is number permutation(s mod size) of the data
/// set. Every epoch has another permutation, unless `reshuffle` is false.
class EpochOrder {
 public:
  EpochOrder(std::int64_t size, std::uint64_t seed, bool reshuffle)
      : size_(size), seed_(seed), reshuffle_(reshuffle) {}
  std::int64_t operator()(std::int64_t sample) const {
    const auto epoch = reshuffle_ ? static_cast<std::uint64_t>(sample / size_) : std::uint64_t{0};
    return Permutation(size_, mix64(mix64(seed_) + epoch))(sample % size_);
  }

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  bool reshuffle_;
};

}  // namespace lockstep
