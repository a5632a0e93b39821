#include "core/plan/estimate/posted_run.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/schedule/messages.hpp"

namespace lockstep {
namespace {

constexpr double kUnposted = -1;

class PostedRun {
 public:
  PostedRun(const Schedule& schedule, const PipelineCost& cost, bool one_by_one)
      : schedule_(schedule), cost_(cost), one_by_one_(one_by_one) {
    const Messages messages(schedule, false);
    for (const int r : schedule.actions.ids()) {
      RankState rank;
      rank.steps = steps_of(schedule.actions[r]);
      rank.gaps.resize(rank.steps.size() + 1);
      for (std::size_t s = 0; s < rank.steps.size(); ++s) {
        for (const Action& needs : messages.before(r, s)) {
          rank.gaps[s].push_back({to_message(needs.phase, needs.stage, needs.microbatch), false});
        }
      }
      ranks_.push_back(std::move(rank));
    }
  }

  std::optional<PipelineRun> run() {
    for (const int r : ranks_.ids()) note_sends(r);
    for (bool moved = true; moved;) {
      moved = false;
      for (const int r : ranks_.ids()) {
        while (pass_gap(r, moved)) run_step(r);
      }
    }
    PipelineRun result{0, IndexVector<int, double>(ranks_.size(), 0)};
    for (const int r : ranks_.ids()) {
      if (ranks_[r].at <= ranks_[r].steps.size()) return std::nullopt;
      result.makespan = std::max(result.makespan, ranks_[r].clock);
      result.kept[r] = most_kept(schedule_.actions[r], cost_);
    }
    return result;
  }

 private:
  struct Message {
    double sent = kUnposted, awaited = kUnposted;  // when its ends were posted
    MessageTime time;
  };
  struct End {
    int message;
    bool sends;
  };
  struct RankState {
    std::vector<Step> steps;
    std::vector<std::vector<End>> gaps;  // before each step, and after the last
    std::size_t at = 0;                  // the gap, and the step behind it
    std::size_t passed = 0;              // messages of the gap that have ended, one by one
    double clock = 0;                    // when the rank is free
  };

  int to_message(Phase phase, Stage to, Microbatch mb) {
    const bool forward = phase == Phase::F;
    const auto [it, is_new] =
        index_.try_emplace({forward, to, mb}, static_cast<int>(messages_.size()));
    if (is_new) {
      messages_.push_back(
          {kUnposted, kUnposted, forward ? cost_.forward[to - 1] : cost_.backward[to]});
    }
    return it->second;
  }
  /// Puts what the steps of a rank send into the gaps behind them, before what these receive.
  void note_sends(int r) {
    RankState& rank = ranks_[r];
    for (std::size_t s = 0; s < rank.steps.size(); ++s) {
      std::vector<End> sends;
      for (std::size_t i = rank.steps[s].begin; i < rank.steps[s].end; ++i) {
        const Action& a = schedule_.actions[r][i];
        const bool forward = a.phase == Phase::F;
        if (a.phase == Phase::W) continue;
        if (forward ? schedule_.is_last(a.stage) : schedule_.is_first(a.stage)) continue;
        const Stage to = a.stage + (forward ? 1 : -1);
        if (schedule_.rank_of_stage[to] == r) continue;
        sends.push_back({to_message(forward ? Phase::F : Phase::B, to, a.microbatch), true});
      }
      rank.gaps[s + 1].insert(rank.gaps[s + 1].begin(), sends.begin(), sends.end());
    }
  }
  double post(const End& end, double at, bool& moved) {
    Message& m = messages_[to_size(end.message)];
    double& own = end.sends ? m.sent : m.awaited;
    if (own < 0) {
      own = std::max(at, end.sends ? made_[end.message] : 0);
      moved = true;
    }
    if (m.sent < 0 || m.awaited < 0) return kUnposted;
    return std::max(m.sent, m.awaited) + (end.sends ? m.time.busy : m.time.arrival);
  }
  /// Whether the messages before the rank's next step have ended, and there is one.
  bool pass_gap(int r, bool& moved) {
    RankState& rank = ranks_[r];
    if (rank.at > rank.steps.size()) return false;
    const std::vector<End>& gap = rank.gaps[rank.at];
    double last = rank.clock;
    for (std::size_t i = rank.passed; i < gap.size(); ++i) {
      const double end = post(gap[i], one_by_one_ ? last : rank.clock, moved);
      if (end < 0 && one_by_one_) {
        rank.clock = last;
        return false;
      }
      if (one_by_one_) rank.passed = i + 1;
      last = end < 0 || last < 0 ? kUnposted : std::max(last, end);
    }
    if (last < 0) return false;
    rank.clock = last;
    rank.passed = 0;
    moved = true;
    return rank.at++ < rank.steps.size();
  }
  void run_step(int r) {
    RankState& rank = ranks_[r];
    const Step step = rank.steps[rank.at - 1];
    double results = rank.clock;
    for (std::size_t i = step.begin; i < step.end; ++i) {
      const Action& a = schedule_.actions[r][i];
      const ActionTime& time = time_of(cost_.stages[a.stage], a.phase);
      const double begin = rank.clock + time.early + time.lead;
      rank.clock = begin + time.busy;
      results = std::max(results, begin + time.result);
      const bool forward = a.phase == Phase::F;
      const auto message = index_.find({forward, a.stage + (forward ? 1 : -1), a.microbatch});
      if (a.phase != Phase::W && message != index_.end()) {
        made_[message->second] = begin + time.result;
      }
    }
    if (rank.at == rank.steps.size()) rank.clock = std::max(rank.clock, results);
  }

  const Schedule& schedule_;
  const PipelineCost& cost_;
  const bool one_by_one_;
  IndexVector<int, RankState> ranks_;
  std::map<std::tuple<bool, Stage, Microbatch>, int> index_;  // forward, receiving stage
  std::vector<Message> messages_;
  std::map<int, double> made_;  // when what a message carries was there, by message
};

}  // namespace

std::optional<PipelineRun> run_posted(const Schedule& schedule, const PipelineCost& cost,
                                      bool one_by_one) {
  return PostedRun(schedule, cost, one_by_one).run();
}

bool waits_in_messages(const StrategySpec& strategy) {
  return strategy.pipeline_parallel_p2p == P2pPosting::Fused ||
         strategy.pipeline_parallel_p2p == P2pPosting::Blocking;
}

std::optional<PipelineRun> run_as_posted(const Schedule& schedule, const PipelineCost& cost,
                                         const StrategySpec& strategy,
                                         const SharedDevices* shared) {
  if (!waits_in_messages(strategy) || shared != nullptr) {
    return run_pipeline(schedule, cost, shared);
  }
  return run_posted(schedule, cost, strategy.pipeline_parallel_p2p == P2pPosting::Blocking);
}

}  // namespace lockstep
