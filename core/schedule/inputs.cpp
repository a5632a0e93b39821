#include "core/schedule/inputs.hpp"

#include <algorithm>

#include "core/base/index_vector.hpp"

namespace lockstep {

Inputs::Inputs(const Schedule& schedule) : schedule_(schedule) {
  for (const Actions& actions : schedule.actions) {
    for (const Action& a : actions) {
      microbatches_ = std::max(microbatches_, to_size(a.microbatch) + 1);
    }
  }
  const std::size_t cells = schedule.rank_of_stage.size() * microbatches_;
  for (auto* parts : {&forward_, &backward_}) parts->assign(cells, 0);
  for (auto* given : {&to_forward_, &to_backward_}) given->assign(cells, false);
}

std::size_t Inputs::cell(const Action& action) const {
  return to_size(action.stage) * microbatches_ + to_size(action.microbatch);
}

bool Inputs::ready(const Action& action) const {
  if (action.phase == Phase::W) return true;
  if (action.phase == Phase::F) {
    return schedule_.is_first(action.stage) || to_forward_[cell(action)];
  }
  const bool alone = schedule_.is_last(action.stage) && !schedule_.on_every_rank(action.stage);
  return alone || to_backward_[cell(action)];
}

std::optional<Action> Inputs::run(const Action& action) {
  if (action.phase == Phase::W) return std::nullopt;
  const bool forward = action.phase == Phase::F, shared = schedule_.on_every_rank(action.stage);
  const int parts = ++(forward ? forward_ : backward_)[cell(action)];
  if (shared && parts < static_cast<int>(schedule_.actions.size())) return std::nullopt;
  Action next = action;
  next.overlaps_next = false;
  if (forward && schedule_.is_last(action.stage)) {
    if (!shared) return std::nullopt;
    next.phase = Phase::B;
  } else if (!forward && schedule_.is_first(action.stage)) {
    return std::nullopt;
  } else {
    next.stage += forward ? 1 : -1;
  }
  (next.phase == Phase::F ? to_forward_ : to_backward_)[cell(next)] = true;
  return next;
}

bool in_message(const Schedule& schedule, Stage from, Stage to) {
  return schedule.rank_of_stage[from] != schedule.rank_of_stage[to] &&
         !schedule.on_every_rank(from) && !schedule.on_every_rank(to);
}

}  // namespace lockstep
