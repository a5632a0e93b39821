// Rotary positions (Su et al. 2021), whose low frequencies may be slowed down for texts that are
// longer than those of the first training.
#pragma once

#include <cstdint>

#include "core/base/mix.hpp"

namespace lockstep {

/// The angle by which pair i of the `half` pairs of a head turns from one position to the next:
/// theta^(-i / half), divided by `slowing` unless that is 0. That holds for wavelengths, in
/// positions, above `longest`; those below `shortest` stay as they are, and between the two the
/// share of each goes with the frequency (Llama 3.1: `_compute_llama3_parameters` in transformers,
/// with longest = original_length / low_freq_factor and shortest = original_length /
/// high_freq_factor). With both 0 all are divided (position interpolation, Chen et al. 2023).
/// It has internal linkage because kernels are compiled once for each instruction set.
LOCKSTEP_ANYWHERE static inline double rope_frequency(std::int64_t i, std::int64_t half,
                                                      double theta, double slowing, double longest,
                                                      double shortest) {
  const double frequency =
      __builtin_pow(theta, -static_cast<double>(i) / static_cast<double>(half));
  if (slowing == 0) return frequency;
  const double wavelength = 6.283185307179586 / frequency;
  if (wavelength < shortest) return frequency;
  if (wavelength > longest) return frequency / slowing;
  const double own = (1 / wavelength - 1 / longest) / (1 / shortest - 1 / longest);
  return (1 - own) * frequency / slowing + own * frequency;
}

}  // namespace lockstep
