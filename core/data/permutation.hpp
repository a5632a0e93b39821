// Permutation: a seeded bijection of [0, size) that is computed, not stored.
#pragma once

#include <cstdint>

namespace lockstep {

/// Balanced Feistel network over the smallest even number of bits that holds `size`, with cycle
/// walking back into [0, size) (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002):
/// constant memory however many samples an epoch has, and fewer than four rounds of walking on
/// average.
class Permutation {
 public:
  Permutation(std::int64_t size, std::uint64_t key);  // requires size >= 1
  std::int64_t operator()(std::int64_t index) const;  // requires 0 <= index < size

 private:
  std::uint64_t size_, key_;
  int half_bits_ = 0;
};

}  // namespace lockstep
