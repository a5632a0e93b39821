// NonFinite: what a training run does when its numbers go wrong.
#pragma once

namespace lockstep {

/// What a run does after a step whose loss or gradient norm is not finite. A state that such a step
/// left behind is never saved.
enum class NonFinite {
  Stop,      // ends, with an exit code of its own
  Skip,      // undoes the step and goes on with the next samples
  Rollback,  // goes back to the last checkpoint and leaves out the samples that were read since
  GoOn,      // trains on, without saving
};

/// Which steps are undone because their loss or gradient norm stands out from those before it: by
/// its z-score over the last 128 steps (llm.c's -sl and -sg). 0: none.
struct SpikeLimits {
  double loss = 0, grad_norm = 0;
  bool any() const { return loss > 0 || grad_norm > 0; }
};

}  // namespace lockstep
