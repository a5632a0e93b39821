// Messages: where in its list each pipeline rank posts its receives, and on which streams messages
// travel.
#pragma once

#include <cstddef>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace lockstep {

/// True if forward messages from `stage` to the next one go down, from rank r to r+1 mod p; in V
/// placements they also go up. Gradients go against the boundary. With a stream for each direction,
/// messages to the two neighbours never share one, and none is held up by another's.
bool boundary_goes_down(const Schedule& schedule, Stage stage);

/// An action, or two that run as one: [begin, end) of a rank's list.
struct Step {
  std::size_t begin = 0, end = 0;
};
std::vector<Step> steps_of(const Actions& actions);

/// Receives posted `ahead` are posted one step before the one that needs them, so that the transfer
/// can overlap, and in the order of the sends. Where the sender is further ahead they are posted
/// when, in lock-step, it sends: then there is one order of all ops of all ranks in which each
/// waits for earlier ones alone, and a sender that waits until its buffer may be reused waits for
/// no op that waits for it. Otherwise they are posted just before that step, or earlier where the
/// order of the sends asks for it.
class Messages {
 public:
  /// Requires check_schedule to find nothing.
  Messages(const Schedule& schedule, bool ahead);
  /// What `rank` receives just before `step`, as the actions that need it.
  const Actions& before(int rank, std::size_t step) const {
    return posted_[static_cast<std::size_t>(rank)][step];
  }

 private:
  std::vector<std::vector<Actions>> posted_;  // by rank and step
};

}  // namespace lockstep
