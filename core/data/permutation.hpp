// Permutation: a seeded bijection of [0, size) that is computed, not stored.
#pragma once

#include <cstdint>

namespace lockstep {

/// A balanced Feistel network over the smallest even number of bits that holds `size`; a result
/// outside [0, size) is permuted again until it lies inside (cycle walking; Black and Rogaway,
/// "Ciphers with arbitrary finite domains", 2002). It needs constant memory, however many samples
/// an epoch has, and on average fewer than four rounds of walking.
class Permutation {
 public:
  Permutation(std::int64_t size, std::uint64_t key);  // requires size >= 1
  std::int64_t operator()(std::int64_t index) const;  // requires 0 <= index < size

 private:
  std::uint64_t size_, key_;
  int half_bits_ = 0;
};

}  // namespace lockstep
