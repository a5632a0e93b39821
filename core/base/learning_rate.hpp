// LearningRate: the schedule of the learning rate, a function of the step, as a plain value.
#pragma once

namespace lockstep {

enum class DecayType { Linear, Cosine };

/// The rate rises in a straight line over `warmup_steps`, is then constant, and decays over
/// `decay_steps` steps beginning with `decay_from`; after that it stays as it is.
struct LearningRate {
  double base = 0;       // between warm-up and decay, for one data-parallel rank
  double factor = 1;     // multiplies every rate: the number of data-parallel ranks, or 1
  int warmup_steps = 0;  // step s < warmup_steps has the rate base × (s + 1) / warmup_steps
  DecayType decay = DecayType::Linear;
  int decay_from = 0;   // first step with a lower rate than base
  int decay_steps = 0;  // the last of these steps has the rate base × minimum; 0: no decay
  double minimum = 0;   // the lowest rate, as a factor of base
  /// The rate of 0-based `step`. With p = (step - decay_from + 1) / decay_steps and the shape 1 - p
  /// (linear) or (1 + cos πp)/2 (cosine; Loshchilov and Hutter 2017, without restarts), the rate
  /// during the decay is factor × base × (minimum + (1 - minimum) × shape).
  double at(int step) const;
  bool operator==(const LearningRate&) const = default;
};

}  // namespace lockstep
