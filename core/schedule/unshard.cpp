// The add_unshard_reshard pass of torch.distributed.pipelining: before each action, the stages that
// the rank touches next hold unsharded parameters.
#include "core/schedule/unshard.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/index_vector.hpp"

namespace lockstep {

std::vector<int> unshards(const std::vector<Action>& actions, int most_active) {
  if (most_active == 0) return std::vector<int>(actions.size(), 1);
  std::set<Stage> stages;
  for (const Action& action : actions) stages.insert(action.stage);
  const std::size_t most = std::min(stages.size(), to_size(most_active));
  std::map<Stage, int> times;
  std::set<Stage> active;
  std::vector<int> times_at;
  times_at.reserve(actions.size());
  for (std::size_t i = 0; i < actions.size(); ++i) {
    std::set<Stage> next;
    for (std::size_t k = i; k < actions.size() && next.size() < most; ++k) {
      next.insert(actions[k].stage);
    }
    for (const Stage stage : next) {
      if (active.count(stage) == 0) ++times[stage];
    }
    active = std::move(next);
    times_at.push_back(times[actions[i].stage]);
  }
  return times_at;
}

}  // namespace lockstep
