#include "core/schedule/messages.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/schedule/inputs.hpp"

namespace lockstep {

bool boundary_goes_down(const Schedule& schedule, Stage stage) {
  const int p = static_cast<int>(schedule.actions.size());
  const int from = schedule.rank_of_stage[stage];
  const int to = schedule.rank_of_stage[stage + 1];
  return (to - from + p) % p <= p / 2;
}

std::vector<Step> steps_of(const Actions& actions) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < actions.size(); i = steps.back().end) {
    steps.push_back({i, std::min(i + (actions[i].overlaps_next ? 2 : 1), actions.size())});
  }
  return steps;
}

namespace {

/// The input of an action, identified by the action that needs it: (backward, (stage, microbatch)).
using Need = std::pair<bool, std::pair<Stage, Microbatch>>;
Need need_of(const Action& a) { return {a.phase != Phase::F, {a.stage, a.microbatch}}; }

/// Runs the schedule with all ranks in lock-step: every step takes one tick.
class LockStep {
 public:
  LockStep(const Schedule& schedule, bool ahead)
      : schedule_(schedule), ahead_(ahead), inputs_(schedule) {
    for (const Actions& actions : schedule.actions) {
      ranks_.push_back({steps_of(actions), 0});
      for (std::size_t s = 0; s < ranks_.back().steps.size(); ++s) {
        for (std::size_t i = ranks_.back().steps[s].begin; i < ranks_.back().steps[s].end; ++i) {
          if (actions[i].phase != Phase::W) step_of_[need_of(actions[i])] = s;
        }
      }
    }
  }

  struct Message {
    Action needed_by;
    std::size_t before;  // the receiver's step before which the receive is posted
  };
  /// A rank and the direction from which it receives: one stream, whoever sends.
  struct Receiver {
    int rank;
    bool down;
    auto operator<=>(const Receiver&) const = default;
  };

  /// Messages by receiver, in the order of the sends.
  std::map<Receiver, std::vector<Message>> run() {
    for (bool moved = true; moved;) {
      std::vector<std::size_t> ready;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (can_run(r)) ready.push_back(r);
      }
      for (std::size_t r : ready) execute(r);
      moved = !ready.empty();
    }
    return std::move(messages_);
  }

 private:
  struct RankState {
    std::vector<Step> steps;
    std::size_t next = 0;
  };

  bool can_run(std::size_t r) const {
    const RankState& rank = ranks_[r];
    if (rank.next == rank.steps.size()) return false;
    const Step step = rank.steps[rank.next];
    const Actions& actions = schedule_.actions[r];
    for (std::size_t i = step.begin; i < step.end; ++i) {
      if (!inputs_.ready(actions[i])) return false;
    }
    return true;
  }

  void execute(std::size_t r) {
    const Step step = ranks_[r].steps[ranks_[r].next++];
    for (std::size_t i = step.begin; i < step.end; ++i) {
      const Stage from = schedule_.actions[r][i].stage;
      const std::optional<Action> to = inputs_.run(schedule_.actions[r][i]);
      if (!to || !in_message(schedule_, from, to->stage)) continue;
      const bool forward = to->phase == Phase::F;
      const int receiver = schedule_.rank_of_stage[to->stage];
      const bool down = boundary_goes_down(schedule_, std::min(from, to->stage));
      const std::size_t needed = step_of_.at(need_of(*to));
      const std::size_t reached = ranks_[receiver].next;
      const std::size_t early = std::min(reached, needed == 0 ? 0 : needed - 1);
      messages_[{receiver, down == forward}].push_back({*to, ahead_ ? early : needed});
    }
  }

  const Schedule& schedule_;
  const bool ahead_;
  IndexVector<int, RankState> ranks_;
  std::map<Need, std::size_t> step_of_;
  Inputs inputs_;
  std::map<Receiver, std::vector<Message>> messages_;
};

}  // namespace

Messages::Messages(const Schedule& schedule, bool ahead) {
  for (const Actions& actions : schedule.actions) {
    posted_.emplace_back(steps_of(actions).size());
  }
  for (auto& [receiver, messages] : LockStep(schedule, ahead).run()) {
    for (std::size_t i = messages.size(); i-- > 1;) {
      messages[i - 1].before = std::min(messages[i - 1].before, messages[i].before);
    }
    auto& lists = posted_[receiver.rank];
    for (const LockStep::Message& message : messages) {
      lists[message.before].push_back(message.needed_by);
    }
  }
}

}  // namespace lockstep
