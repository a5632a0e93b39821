// Messages: where in its list of actions each pipeline rank posts its receives, and on which
// streams messages travel.
#pragma once

#include <cstddef>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/schedule/schedule.hpp"

namespace lockstep {

/// True if forward messages from `stage` to the next one go down, from rank r to r+1 mod p. In V
/// placements, some go up. Gradients go the opposite way. Each direction has a stream of its own,
/// so that messages to the two neighbours never share a stream and do not hold each other up.
bool boundary_goes_down(const Schedule& schedule, Stage stage);

/// One action, or two that run as one: [begin, end) of a rank's list.
struct Step {
  std::size_t begin = 0, end = 0;
};
std::vector<Step> steps_of(const Actions& actions);

/// Before each action of `rank`, and after the last: the passes of stages that all ranks share
/// whose broadcast the rank posts there. It posts one as soon as the sender has what it sends: at
/// the sender right after the pass that makes it, elsewhere after as many shared passes as the
/// sender has run before that. So all ranks post them in one order with the other collectives of
/// shared passes.
std::vector<Actions> broadcasts_before(const Schedule& schedule, int rank);

/// Decides before which step each receive is posted; receives of one stream always have the order
/// of the sends, also where a placement has two ranks send on it.
/// - `ahead`: one step before the step that needs the message, so that the transfer can overlap
///   compute. Where the sender is further ahead than that, the receive is posted when it sends, as
///   if all ranks ran in lock-step. Then there is an order of all ops of all ranks in which each op
///   waits for earlier ones only. So a sender that waits until its buffer may be reused never waits
///   for an op that waits for it, and nothing deadlocks.
/// - Otherwise: just before the step that needs the message, or earlier where the order of the
///   sends requires it.
class Messages {
 public:
  /// Requires that check_schedule finds nothing wrong.
  Messages(const Schedule& schedule, bool ahead);
  /// What `rank` receives just before `step`; each message is given by the action that needs it.
  const Actions& before(int rank, std::size_t step) const { return posted_[rank][step]; }

 private:
  IndexVector<int, std::vector<Actions>> posted_;  // by rank and step
};

}  // namespace lockstep
