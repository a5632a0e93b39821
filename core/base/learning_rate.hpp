// LearningRate: the learning rate as a function of the step, as a plain value.
#pragma once

namespace lockstep {

enum class DecayType { Linear, Cosine };

/// Rises in a straight line over `warmup_steps`, is then constant, and decays over `decay_steps`
/// from step `decay_from` on; after that it stays where it is.
struct LearningRate {
  double base = 0;    // between warm-up and decay, for one data-parallel rank
  double factor = 1;  // of all of it: data-parallel ranks, where the rate grows with their number
  int warmup_steps = 0;  // the rate of step s < warmup_steps is base × (s + 1) / warmup_steps
  DecayType decay = DecayType::Linear;
  int decay_from = 0;   // first step with a lower rate than base
  int decay_steps = 0;  // the last of so many steps has base × minimum; 0: no decay
  double minimum = 0;   // as a factor of base
  /// The rate of 0-based `step`. During the decay base × (minimum + (1 - minimum) × shape), where
  /// with p = (step - decay_from + 1) / decay_steps the shape is 1 - p (linear) or
  /// (1 + cos πp) / 2 (cosine; Loshchilov and Hutter 2017, without restarts).
  double at(int step) const;
  bool operator==(const LearningRate&) const = default;
};

}  // namespace lockstep
