#include "core/spec/training.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

LearningRate learning_rate(const OptimizerSpec& optimizer, const LrSchedulerSpec& schedule,
                           int steps) {
  LearningRate rate;
  rate.base = optimizer.lr;
  rate.warmup_steps = schedule.warmup_steps;
  const int decay_steps = static_cast<int>(std::lround(schedule.decay_ratio * steps));
  if (decay_steps == 0) return rate;
  rate.decay = schedule.decay_type;
  rate.decay_from = std::max(schedule.warmup_steps, steps - decay_steps);
  rate.decay_steps = std::max(1, steps - rate.decay_from);
  rate.minimum = schedule.min_lr_factor;
  return rate;
}

}  // namespace lockstep
