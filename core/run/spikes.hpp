// Spikes: which values stand out from those before them, by their z-score, as llm.c's
// outlier_detector.h finds them.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "core/base/non_finite.hpp"
#include "core/base/result.hpp"
#include "core/ir/training_state.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// The last values of a loss or a gradient norm.
class SpikeDetector {
 public:
  static constexpr std::size_t kWindow = 128;
  /// Takes in a finite value and returns (value - mean) / deviation, both of the last kWindow
  /// values, this one included; nullopt until there are so many before it. 0 if all are equal.
  std::optional<double> z_score(double value);

  /// The values, oldest first, as a checkpoint keeps them; read() is the reverse. Error Parse for
  /// what is not at most kWindow finite numbers.
  std::string text() const;
  static Result<SpikeDetector> read(const std::string& text);

 private:
  std::deque<double> values_;
};

/// The loss and the gradient norm of a training. Every process comes to the same answers, because
/// all have the same numbers.
class Spikes {
 public:
  explicit Spikes(const SpikeLimits& limits) : limits_(limits) {}
  /// Takes in a step. Returns why it stands out, or an empty text.
  std::string look(const StepResult& step);
  /// Goes on where `state` left off, or begins if it is null. Errors: those of read().
  Result<void> take(const StateReader* state);
  /// Adds what take() needs to the notes of a state.
  void add_notes(std::map<std::string, std::string>& notes) const;

 private:
  SpikeLimits limits_;
  SpikeDetector loss_, grad_norm_;
};

}  // namespace lockstep
