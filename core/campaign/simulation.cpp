#include "core/campaign/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

#include "core/base/mix.hpp"

namespace lockstep {
namespace {

// A campaign that takes so long, or is interrupted so often, makes no progress.
constexpr CampaignTime kGivenUp = std::chrono::hours(24 * 365 * 100);
constexpr int kMostFailures = 1000000;

/// Draws the failures of one campaign, one after the other.
class Failures {
 public:
  explicit Failures(std::uint64_t seed) : key_(mix64(seed)) { next(); }

  /// The time to the next failure while failures have these rates.
  CampaignTime time_left(const FailureRates& rates) const {
    const double rate = rates.total();
    return rate > 0 ? to_campaign_time({hazard_ / rate}) : kLongestCampaign;
  }
  /// So much time has passed without one.
  void pass(CampaignTime time, const FailureRates& rates) {
    hazard_ = std::max(0.0, hazard_ - to_seconds(time).v * rates.total());
  }
  /// The failure happens: what fails. The next one is drawn.
  FailureCause fail(const FailureRates& rates) {
    double at = uniform(2 * drawn_ + 1) * rates.total();
    next();
    for (std::size_t cause = 0; cause + 1 < kNumCauses; ++cause) {
      if (at < rates.rate[cause]) return from_index<FailureCause>(cause);
      at -= rates.rate[cause];
    }
    return FailureCause::Job;
  }

 private:
  void next() {
    ++drawn_;
    hazard_ = -std::log(uniform(2 * drawn_));
  }
  /// In (0, 1].
  double uniform(std::uint64_t i) const {
    return static_cast<double>((mix64(key_ + i * kGoldenGamma) >> 11) + 1) * 0x1p-53;
  }

  std::uint64_t key_, drawn_ = 0;
  double hazard_ = 0;  // the rate, summed over time, at which the next failure happens
};

/// The spare nodes, and those under repair.
class Spares {
 public:
  Spares(int nodes, CampaignTime repair) : ready_(nodes), always_(nodes < 0), repair_(repair) {}

  void node_failed(CampaignTime now) {
    ++missing_;
    if (!always_) back_.push(now + repair_);
  }
  bool missing() const { return missing_ > 0; }
  /// The time until a spare is there: 0, or that of the next repair. Requires missing().
  CampaignTime wait(CampaignTime now) {
    while (!back_.empty() && back_.top() <= now) {
      back_.pop();
      ++ready_;
    }
    return always_ || ready_ > 0 ? CampaignTime{0} : back_.top() - now;
  }
  void take() {
    --missing_;
    if (!always_) --ready_;
  }

 private:
  int ready_, missing_ = 0;
  bool always_;
  CampaignTime repair_;
  std::priority_queue<CampaignTime, std::vector<CampaignTime>, std::greater<>> back_;
};

class Campaign {
 public:
  Campaign(const CampaignPlan& plan, std::uint64_t seed)
      : plan_(plan),
        end_(plan.deadline.value_or(kGivenUp)),
        failures_(seed),
        spares_(plan.spare_nodes, plan.repair) {}

  CampaignRun run() {
    for (const CampaignPhase& phase : plan_.phases) {
      const CampaignTime begin = now_;
      // A phase begins where the one before it was saved, with programs of its own.
      const bool first = &phase == &plan_.phases.front();
      const bool begun = first || spend(phase, CampaignPart::Restarting, phase.restart) ||
                         (failed_ && recover(phase));
      if (begun) train(phase);
      result_.phases.push_back(now_ - begin);
    }
    result_.finished = !given_up_ && (now_ < end_ || plan_.deadline.has_value());
    return result_;
  }

 private:
  void add(CampaignPart part, CampaignTime time) {
    result_.parts[to_size(part)] += time;
    now_ += time;
  }

  void keep(const CampaignPhase& phase, std::int64_t steps, std::int64_t saves) {
    add(CampaignPart::Training, steps * phase.step);
    add(CampaignPart::SlowRanks, steps * phase.slowed);
    add(CampaignPart::Evaluation, steps * phase.evaluation);
    add(CampaignPart::Saving, saves * phase.pause);
    result_.tokens += static_cast<double>(steps) * phase.tokens_per_step;
  }

  void fail(const CampaignPhase& phase) {
    const FailureCause cause = failures_.fail(phase.rates);
    ++result_.failures[to_size(cause)];
    if (takes_node(cause)) spares_.node_failed(now_);
    if (++interruptions_ < kMostFailures) return;
    given_up_ = true;
    end_ = now_;
  }

  /// Lets a time pass that is no training. False if a failure (then `failed_`) or the campaign's
  /// end comes before its end.
  bool spend(const CampaignPhase& phase, CampaignPart part, CampaignTime time) {
    const CampaignTime left = failures_.time_left(phase.rates);
    const CampaignTime passes = std::min({time, left, end_ - now_});
    add(part, passes);
    failed_ = passes == left && passes < time && now_ < end_;
    if (failed_) {
      fail(phase);
    } else {
      failures_.pass(passes, phase.rates);
    }
    return passes == time && now_ < end_;
  }

  /// From a failure until training goes on; a failure on the way begins it again. False: the
  /// campaign is over.
  bool recover(const CampaignPhase& phase) {
    while (now_ < end_) {
      const bool recovered = spend(phase, CampaignPart::Detecting, plan_.detection) &&
                             replace_nodes(phase) &&
                             spend(phase, CampaignPart::Restarting, phase.restart);
      if (recovered) return true;
    }
    return false;
  }

  bool replace_nodes(const CampaignPhase& phase) {
    while (spares_.missing()) {
      if (!spend(phase, CampaignPart::Waiting, spares_.wait(now_) + plan_.swap)) return false;
      spares_.take();
    }
    return true;
  }

  void train(const CampaignPhase& phase) {
    const CampaignTime step = phase.wall_step(), cycle = phase.interval * step + phase.pause;
    std::int64_t done = 0;
    for (;;) {
      const std::int64_t rest = phase.steps - done;
      const std::int64_t saves = (rest + phase.interval - 1) / phase.interval;
      const CampaignTime needed = rest * step + saves * phase.pause;
      const CampaignTime left = failures_.time_left(phase.rates), until_end = end_ - now_;
      if (needed <= std::min(left, until_end)) {
        keep(phase, rest, saves);
        failures_.pass(needed, phase.rates);
        return;
      }
      if (until_end <= left) return end_training(phase, until_end);
      const std::int64_t kept = left > phase.late ? (left - phase.late) / cycle : 0;
      keep(phase, kept * phase.interval, kept);
      add(CampaignPart::LostWork, left - kept * cycle);
      done += kept * phase.interval;
      fail(phase);
      if (!recover(phase)) return;
    }
  }

  /// The campaign's time is over: all whole steps are kept.
  void end_training(const CampaignPhase& phase, CampaignTime time) {
    const CampaignTime step = phase.wall_step(), cycle = phase.interval * step + phase.pause;
    const std::int64_t saves = time / cycle;
    const std::int64_t more = std::min(phase.interval, (time - saves * cycle) / step);
    keep(phase, saves * phase.interval + more, saves);
    add(CampaignPart::LostWork, end_ - now_);
  }

  const CampaignPlan& plan_;
  CampaignTime end_, now_{};
  Failures failures_;
  Spares spares_;
  int interruptions_ = 0;
  bool failed_ = false, given_up_ = false;
  CampaignRun result_;
};

}  // namespace

std::string_view to_string(CampaignPart part) {
  constexpr std::array<std::string_view, kNumCampaignParts> kNames = {
      "training",  "slow ranks", "evaluation",        "saving",
      "lost work", "detecting",  "waiting for nodes", "restarting"};
  return kNames[to_size(part)];
}

CampaignTime CampaignRun::total() const {
  return std::accumulate(parts.begin(), parts.end(), CampaignTime{});
}

int CampaignRun::interruptions() const {
  return std::accumulate(failures.begin(), failures.end(), 0);
}

double CampaignRun::goodput() const {
  const CampaignTime all = total();
  return all.count() > 0 ? to_seconds(part(CampaignPart::Training)).v / to_seconds(all).v : 0;
}

CampaignRun simulate_campaign(const CampaignPlan& plan, std::uint64_t seed) {
  return Campaign(plan, seed).run();
}

}  // namespace lockstep
