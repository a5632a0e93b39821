// mix64: one round of a good 64-bit hash, for counter-based random numbers.
#pragma once

#include <cstdint>

// Marks functions that GPU kernels call, too.
#if defined(__CUDACC__)
#define LOCKSTEP_ANYWHERE __host__ __device__
#else
#define LOCKSTEP_ANYWHERE
#endif

namespace lockstep {

/// The increment of SplitMix64's counter: mix64(key + i * kGoldenGamma) is its i-th output.
inline constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15U;

/// SplitMix64's output function (Steele, Lea, Flood 2014): a bijective mix of 64 bits.
LOCKSTEP_ANYWHERE constexpr std::uint64_t mix64(std::uint64_t x) {
  x += kGoldenGamma;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace lockstep
