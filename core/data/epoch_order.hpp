// EpochOrder: which of a data set's samples the s-th sample of training is.
#pragma once

#include <cstdint>

#include "core/base/mix.hpp"
#include "core/data/permutation.hpp"

namespace lockstep {

/// Sample s is number permutation(s mod size) of epoch s / size; the permutation is another one in
/// every epoch, unless `reshuffle` is false.
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
