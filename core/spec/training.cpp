#include "core/spec/training.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {

double learning_rate(const OptimizerSpec& optimizer, const LrSchedulerSpec& schedule, int step,
                     int steps) {
  if (step < schedule.warmup_steps) {
    return optimizer.lr * double(step + 1) / double(schedule.warmup_steps);
  }
  const int decay_steps = static_cast<int>(std::lround(schedule.decay_ratio * steps));
  const int decay_begin = std::max(schedule.warmup_steps, steps - decay_steps);
  if (decay_steps == 0 || step < decay_begin) return optimizer.lr;
  const double progress =
      std::min(1.0, double(step - decay_begin + 1) / double(std::max(1, steps - decay_begin)));
  const double shape = schedule.decay_type == DecayType::Linear
                           ? 1.0 - progress
                           : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return optimizer.lr * (schedule.min_lr_factor + (1.0 - schedule.min_lr_factor) * shape);
}

}  // namespace lockstep
