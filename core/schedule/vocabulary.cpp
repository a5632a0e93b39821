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
// Collectives run one after the other; a broadcast is posted as soon as there is something to send,
// so that it need not wait until all ranks have come to the pass that needs it.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "core/base/index_vector.hpp"
#include "core/schedule/generators.hpp"
#include "core/schedule/inputs.hpp"
#include "core/schedule/messages.hpp"

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
        shared_.push_back(pending_.begin()->second);
        parts_.push_back(0);
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
    std::size_t own = 0,
                shared = 0;  // how many of its own passes and of the shared ones it has run
    double free = 0;
  };
  struct Choice {
    int rank = 0;
    Action action;
    double begin = 0;
  };
  struct Released {
    Action action;
    double at = 0;  // when what it waits for is there, apart from collectives before its own
    std::size_t after = 0;  // the shared passes whose collectives come before its broadcast
  };

  static constexpr double kNotYet = -1;
  bool is_shared(const Action& a) const { return base_.on_every_rank(a.stage); }
  std::size_t pass(const Action& a) const {
    const std::size_t stage = to_size(a.stage) * 2 + (a.phase == Phase::F ? 0 : 1);
    return stage * to_size(microbatches_) + to_size(a.microbatch);
  }
  void release(const Action& action, double at, std::size_t after = 0) {
    pending_.emplace(at, Released{action, at, after});
  }

  std::optional<Choice> choice(int r) const {
    const RankState& rank = ranks_[r];
    std::optional<Choice> best;
    if (rank.shared < shared_.size() && shared_[rank.shared].after <= ended_.size()) {
      const Released& next = shared_[rank.shared];
      const double sent = next.after == 0 ? 0 : ended_[next.after - 1] + collective_;
      best = {r, next.action, std::max({rank.free, next.at, sent})};
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
    const double end =
        choice.begin + (a.phase == Phase::F ? times.forward : times.input + times.weight);
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
    if (is_shared(a) && ++parts_[rank.shared - 1] == ranks_.size()) {
      const bool sums = a.phase == Phase::F || a.stage != 0;  // a collective follows
      const double before = ended_.empty() ? 0 : ended_.back();
      ended_.push_back(sums ? std::max(latest, before) + collective_ : before);
    }
    if (!next) return;
    double at = latest;
    if (is_shared(a)) {
      at = ended_.back();
    } else if (is_shared(*next)) {
      at += collective_;
    }
    if (is_shared(*next)) {
      release(*next, at, is_shared(a) ? 0 : rank.shared);
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
  std::multimap<double, Released> pending_;  // shared passes by the time at which they are released
  std::vector<Released> shared_;             // those whose order is fixed
  std::vector<std::size_t> parts_;           // of these: how many ranks have run them
  std::vector<double> ended_;   // of those that all have run: when their collectives have ended
  std::vector<double> given_;   // by pass(): when one that is not shared has its input
  std::vector<double> latest_;  // by pass(): when the last of its parts that have run ended
};

}  // namespace

Schedule with_vocabulary(const Schedule& base, const PipelineShape& shape) {
  return Merge(base, shape).run();
}

namespace {

/// The pass of one rank whose result the ranks need for a shared pass, if there is one: the last
/// blocks' output for the output layer, the first blocks' gradient for the embedding's.
std::optional<Action> source_of(const Schedule& schedule, Action shared) {
  if (shared.phase == Phase::F ? schedule.is_first(shared.stage) : schedule.is_last(shared.stage)) {
    return std::nullopt;
  }
  shared.stage += shared.phase == Phase::F ? -1 : 1;
  return shared;
}

/// Of a rank's actions: the place after each of its shared passes, and before all at first.
std::vector<std::size_t> places_after_shared(const Schedule& schedule, int rank) {
  std::vector<std::size_t> places = {0};
  const Actions& actions = schedule.actions[rank];
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (schedule.on_every_rank(actions[i].stage)) places.push_back(i + 1);
  }
  return places;
}

}  // namespace

std::vector<Actions> broadcasts_before(const Schedule& schedule, int rank) {
  struct Broadcast {
    Action shared;
    std::size_t earliest = 0;  // the number of shared passes before the source, on its rank
    int source = 0;            // rank
    std::size_t place = 0;     // after the source, on its rank
  };
  std::vector<Broadcast> all;
  for (const Action& a : schedule.actions[rank]) {
    if (!schedule.on_every_rank(a.stage)) continue;
    const std::optional<Action> source = source_of(schedule, a);
    if (!source) continue;
    const int from = schedule.rank_of_stage[source->stage];
    const Actions& actions = schedule.actions[from];
    const auto at = std::find(actions.begin(), actions.end(), *source);
    const auto shared = std::count_if(actions.begin(), at, [&](const Action& before) {
      return schedule.on_every_rank(before.stage);
    });
    all.push_back({a, to_size(shared), from, to_size(at - actions.begin()) + 1});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Broadcast& a, const Broadcast& b) { return a.earliest < b.earliest; });
  const std::vector<std::size_t> places = places_after_shared(schedule, rank);
  std::vector<Actions> posted(schedule.actions[rank].size() + 1);
  std::size_t place = 0;
  for (const Broadcast& b : all) {
    place = std::max({place, places[b.earliest], b.source == rank ? b.place : 0});
    posted[place].push_back(b.shared);
  }
  return posted;
}

}  // namespace lockstep
