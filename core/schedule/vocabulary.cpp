// The vocabulary divided over the ranks of a pipeline (Yeung et al. 2024, "Balancing Pipeline
// Parallelism with Vocabulary Parallelism", algorithm 1). Of every microbatch each rank runs four
// passes more, of its part of the vocabulary:
//   0F  the embedding's forward pass; the sum over ranks goes to the first stage of blocks
//   LF  (L: the last stage; S in the paper) logits and their statistics, when the last stage of
//       blocks has sent its output to all
//   LB  (T in the paper) the rest of the loss and the gradients, when all have the statistics of
//       all; the sum of the input's gradient goes to the last stage of blocks
//   0B  the embedding's gradient, when the first stage of blocks has sent its own to all
// The collectives of these passes are of all ranks, which must come to them in one order. So the
// order of these passes is one for all ranks, and each rank merges it with that of its own passes.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "core/base/index_vector.hpp"
#include "core/schedule/generators.hpp"
#include "core/schedule/inputs.hpp"

namespace lockstep {
namespace {

/// What a collective is taken to last, as a part of the shortest forward pass of a stage of blocks.
/// A pass that waits for one thus lets another of its rank go first.
constexpr double kCollective = 0.25;

/// Runs all passes with their given times. A rank that is free takes the pass that can begin first,
/// and of two a shared one.
class Merge {
 public:
  Merge(const Schedule& base, const PipelineShape& shape)
      : last_(static_cast<Stage>(base.rank_of_stage.size()) + 1),
        microbatches_(shape.m),
        times_(shape.times),
        base_(base),
        ranks_(base.actions.size()) {
    base_.rank_of_stage.insert(base_.rank_of_stage.begin(), kEveryRank);
    base_.rank_of_stage.push_back(kEveryRank);
    for (Actions& actions : base_.actions) {
      for (Action& action : actions) ++action.stage;
    }
    merged_.rank_of_stage = base_.rank_of_stage;
    merged_.actions.resize(base_.actions.size());
    given_.assign(2 * base_.rank_of_stage.size() * to_size(shape.m), kNotYet);
    latest_.assign(given_.size(), 0);
    collective_ = std::numeric_limits<double>::infinity();
    for (Stage s = 1; s < last_; ++s) {
      collective_ = std::min(collective_, kCollective * times_[s].forward);
    }
  }

  Schedule run() {
    Inputs inputs(base_);
    release({Phase::F, 0, 0}, 0);
    while (true) {
      std::optional<Choice> best;
      for (const int r : ranks_.ids()) {
        const std::optional<Choice> own = choice(r);
        if (own && (!best || own->begin < best->begin)) best = own;
      }
      if (!pending_.empty() && (!best || pending_.begin()->first <= best->begin)) {
        shared_.push_back({pending_.begin()->second, pending_.begin()->first});
        pending_.erase(pending_.begin());
      } else if (best) {
        take(*best, inputs);
      } else {
        return std::move(merged_);
      }
    }
  }

 private:
  struct RankState {
    std::size_t own = 0, shared = 0;  // how many of its own passes and of the shared ones it has run
    double free = 0;
  };
  struct Choice {
    int rank = 0;
    Action action;
    double begin = 0;
  };
  struct Released {
    Action action;
    double at = 0;
  };

  static constexpr double kNotYet = -1;
  bool is_shared(const Action& a) const { return base_.on_every_rank(a.stage); }
  std::size_t pass(const Action& a) const {
    const std::size_t stage = to_size(a.stage) * 2 + (a.phase == Phase::F ? 0 : 1);
    return stage * to_size(microbatches_) + to_size(a.microbatch);
  }
  void release(const Action& action, double at) { pending_.emplace(at, action); }

  std::optional<Choice> choice(int r) const {
    const RankState& rank = ranks_[r];
    std::optional<Choice> best;
    if (rank.shared < shared_.size()) {
      const Released& next = shared_[rank.shared];
      best = {r, next.action, std::max(rank.free, next.at)};
    }
    if (rank.own == base_.actions[r].size()) return best;
    const Action& next = base_.actions[r][rank.own];
    const double given = given_[pass(next)];
    if (given == kNotYet) return best;
    const double begin = std::max(rank.free, given);
    if (!best || begin < best->begin) best = {r, next, begin};
    return best;
  }

  void take(const Choice& choice, Inputs& inputs) {
    const Action& a = choice.action;
    RankState& rank = ranks_[choice.rank];
    const StageTimes& times = times_[a.stage];
    const double end = choice.begin + (a.phase == Phase::F ? times.forward
                                                           : times.input + times.weight);
    merged_.actions[choice.rank].push_back(a);
    rank.free = end;
    ++(is_shared(a) ? rank.shared : rank.own);
    // The embedding of the next microbatch is computed while the first stage runs this one.
    if (a.phase == Phase::F && a.stage == 1 && a.microbatch + 1 < microbatches_) {
      release({Phase::F, 0, a.microbatch + 1}, choice.begin);
    }
    double& latest = latest_[pass(a)];
    latest = std::max(latest, end);
    const std::optional<Action> next = inputs.run(a);
    if (!next) return;
    const double at = latest + (is_shared(a) || is_shared(*next) ? collective_ : 0);
    if (is_shared(*next)) {
      release(*next, at);
    } else {
      given_[pass(*next)] = at;
    }
  }

  const Stage last_;
  const Microbatch microbatches_;
  const IndexVector<Stage, StageTimes>& times_;
  Schedule base_;  // with the two shared stages, of which it has no actions
  IndexVector<int, RankState> ranks_;
  Schedule merged_;
  double collective_ = 0;
  std::multimap<double, Action> pending_;  // shared passes by the time at which they can begin
  std::vector<Released> shared_;           // those of that order that are fixed
  std::vector<double> given_;   // by pass(): when one that is not shared has its input
  std::vector<double> latest_;  // by pass(): when the last of its parts that have run ended
};

}  // namespace

Schedule with_vocabulary(const Schedule& base, const PipelineShape& shape) {
  return Merge(base, shape).run();
}

}  // namespace lockstep
