// LossScale: the factor by which the loss is multiplied before backward, so that small gradients do
// not vanish in float16, whose smallest number is 6e-8. It is divided out again before the norm is
// taken. A step with a gradient that is not finite is skipped and lowers the factor; many steps
// without one raise it (Micikevicius et al. 2018, Mixed Precision Training).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

/// How the factor moves. The defaults are those of torch.cuda.amp.GradScaler; Megatron-LM has
/// growth_interval 1000, hysteresis 2 and min_scale 1. Both factors 1 make it constant.
struct LossScaling {
  double init_scale = 65536;
  double growth_factor = 2;     // multiplies the scale after growth_interval good steps in a row
  double backoff_factor = 0.5;  // multiplies it after an overflow
  int growth_interval = 2000;   // steps
  int hysteresis = 1;           // overflows between two growths, of which the last lowers the scale
  double min_scale = 0;         // the scale is never lowered below this
  bool operator==(const LossScaling&) const = default;
};

/// What is wrong with such numbers: the field's name and a sentence; both empty if nothing is.
std::pair<std::string, std::string> fault_of(const LossScaling& scaling);

/// The factor of one step and what is remembered between steps; a part of the training's state.
struct LossScale {
  double scale = 0;
  int good_steps = 0;      // steps without overflow since the last overflow or growth
  int overflows_left = 1;  // until the scale is lowered; at most LossScaling::hysteresis
  int skipped_steps = 0;   // of the whole training
  static LossScale first(const LossScaling& scaling);
  /// What follows a step whose gradients were all finite, or were not. The scale stays as it is
  /// where growth would leave float32's range (GradScaler's rule).
  LossScale after_step(bool finite, const LossScaling& scaling) const;
  bool operator==(const LossScale&) const = default;
};

/// "65536 12 1 3": the four numbers in their order, as a checkpoint keeps them.
std::string to_string(const LossScale& scale);
/// The reverse; nullopt if `text` is anything else.
std::optional<LossScale> parse_loss_scale(std::string_view text);

}  // namespace lockstep
