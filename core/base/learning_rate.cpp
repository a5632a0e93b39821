#include "core/base/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {

double LearningRate::at(int step) const {
  if (step < warmup_steps) return factor * (base * double(step + 1) / double(warmup_steps));
  if (decay_steps == 0 || step < decay_from) return factor * base;
  const double progress = std::min(1.0, double(step - decay_from + 1) / double(decay_steps));
  const double shape = decay == DecayType::Linear
                           ? 1.0 - progress
                           : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return factor * (base * (minimum + (1.0 - minimum) * shape));
}

}  // namespace lockstep
