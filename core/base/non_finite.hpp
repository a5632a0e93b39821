// NonFinite: what a training run does when its numbers go wrong.
#pragma once

namespace lockstep {

/// What a run does after a step whose loss or gradient norm is not finite. A state that such a step
/// left behind is never saved.
enum class NonFinite {
  Stop,      // ends, with an exit code of its own
  Rollback,  // goes back to the last checkpoint and leaves out the samples that were read since
  GoOn,      // trains on, without saving
};

}  // namespace lockstep
