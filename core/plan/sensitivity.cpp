#include "core/plan/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/spec/validate/validate.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostLayouts = 6;
constexpr std::size_t kMostSmall = 3;  // beside these, that fit where there is less memory
constexpr double kLessMemory = 0.9;
constexpr double kFarthest = 16;  // the factors that are tried at most
constexpr int kBisections = 7;    // of 16 = 2⁴: to 2 %
constexpr int kMostRanks = 1024;  // of which one may be slower in a simulation
constexpr double kSlower = 1.1;

using Variation = std::function<bool(Scenario&)>;  // false if it cannot be made

class Candidates {
 public:
  explicit Candidates(const Prober& prober) : prober_(prober) {}
  Result<void> add_from(const SpaceResult& result) {
    capacity_ = result.capacity;
    const LayoutPoint& first = result.found.front().point;
    for (const EstimatedLayout& e : result.estimated) {
      if (e.point != first) continue;
      if (auto done = add(e, result); !done) return done;
    }
    for (const EstimatedLayout& e : result.families) {
      if (e.point == first || layouts_.size() == kMostLayouts) continue;
      if (auto done = add(e, result); !done) return done;
    }
    std::size_t small = 0;
    const double most = kLessMemory * static_cast<double>(capacity_.v);
    for (const EstimatedLayout& e : result.front) {
      if (static_cast<double>(e.estimate.needed.v) > most || small == kMostSmall) continue;
      ++small;
      const bool known = std::any_of(layouts_.begin(), layouts_.end(), [&](const Candidate& c) {
        return c.estimated->point == e.point;
      });
      if (known) continue;
      if (auto done = add(e, result); !done) return done;
    }
    return {};
  }
  const Scenario& winner() const { return layouts_.front().estimated->scenario; }
  Seconds usual() const {
    return layouts_.front().time * layouts_.front().estimated->estimate.step_time;
  }

  struct Best {
    std::size_t index = 0;
    bool any = false;
    Seconds step, of_winner;  // 0 for a winner that cannot be changed so, or does not fit
  };
  Result<Best> after(const Variation& change, double memory) {
    Estimator estimator(prober_);
    Best best;
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      const Candidate& candidate = layouts_[i];
      Scenario s = candidate.estimated->scenario;
      if (!change(s) || !validate(s).empty()) continue;
      const Result<LayoutEstimate> e = estimator.estimate(s);
      if (!e) return e.error();
      const double most = memory * static_cast<double>(capacity_.v);
      if (most > 0 && candidate.memory * static_cast<double>(e->needed.v) > most) continue;
      const Seconds step = candidate.time * e->step_time;
      if (i == 0) best.of_winner = step;
      if (best.any && best.step <= step) continue;
      best.index = i;
      best.any = true;
      best.step = step;
    }
    return best;
  }
  std::string name(std::size_t i) const { return layout_name(layouts_[i].estimated->scenario); }

 private:
  struct Candidate {
    const EstimatedLayout* estimated;
    double time = 1, memory = 1;  // as simulated, over the estimate
  };
  /// Adds a layout, unless it does not fit as simulated or lowering refuses it.
  Result<void> add(const EstimatedLayout& e, const SpaceResult& result) {
    Candidate candidate{&e};
    const auto simulated = [&](Seconds step, Bytes needed) {
      candidate.time = step.v / e.estimate.step_time.v;
      candidate.memory = static_cast<double>(needed.v) / static_cast<double>(e.estimate.needed.v);
    };
    const auto known = std::find_if(result.found.begin(), result.found.end(),
                                    [&](const FoundLayout& f) { return f.scenario == e.scenario; });
    if (known != result.found.end()) {
      simulated(known->figures.step_time, known->figures.memory.needed);
    } else {  // nor with other settings
      const Result<Probe> full = prober_(e.scenario);
      if (!full && full.error().kind == ErrorKind::Internal) return full.error();
      if (!full) return {};
      const Bytes needed = *std::max_element(full->needed.begin(), full->needed.end());
      if (!layouts_.empty() && capacity_.v > 0 && needed > capacity_) return {};
      simulated(full->step, needed);
    }
    layouts_.push_back(candidate);
    return {};
  }

  const Prober& prober_;
  std::vector<Candidate> layouts_;
  Bytes capacity_;
};

Variation bandwidth(bool between, double factor) {
  return [between, factor](Scenario& s) {
    LinkSpec& link = between ? s.cluster.inter_node : s.cluster.intra_node;
    link.bandwidth = BytesPerSecond{link.bandwidth.v * factor};
    return true;
  };
}

Variation batch(bool doubled) {
  return [doubled](Scenario& s) {
    const int all = s.global_batch_size();
    if (!doubled && all % 2 != 0) return false;
    return set_microbatches(s, doubled ? 2 * all : all / 2, s.microbatch_size());
  };
}

/// Finds the factor between 1 and `end` at which another layout wins, by bisection of its
/// logarithm.
Result<std::optional<TippingPoint>> tip(Candidates& candidates, bool between, double end) {
  const auto other = [&](double factor) { return candidates.after(bandwidth(between, factor), 1); };
  const Result<Candidates::Best> last = other(end);
  if (!last) return last.error();
  if (!last->any || last->index == 0) return std::optional<TippingPoint>();
  double same = 1, changed = end;
  std::size_t winner = last->index;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = std::sqrt(same * changed);
    const Result<Candidates::Best> best = other(middle);
    if (!best) return best.error();
    if (best->index == 0) {
      same = middle;
    } else {
      changed = middle;
      winner = best->index;
    }
  }
  return std::optional(TippingPoint{between ? "bandwidth between nodes" : "bandwidth inside nodes",
                                    changed, candidates.name(winner)});
}

}  // namespace

Result<SensitivityReport> sensitivity(const SpaceResult& result, const Prober& prober) {
  Candidates candidates(prober);
  if (const auto done = candidates.add_from(result); !done) return done.error();
  SensitivityReport report;
  const bool several = candidates.winner().cluster.nodes > 1;
  const auto try_change = [&](const char* name, const Variation& change, double memory,
                              double work) -> Result<void> {
    const Result<Candidates::Best> best = candidates.after(change, memory);
    if (!best) return best.error();
    Sensitivity s{name, best->of_winner.v > 0, 0, "", false, 0};
    if (best->any) {
      s.winner = candidates.name(best->index);
      s.other = best->index != 0;
      if (best->of_winner.v > 0) {
        s.slower = best->of_winner.v / (work * candidates.usual().v) - 1;
        s.by = best->of_winner.v / best->step.v - 1;
      }
    }
    report.changes.push_back(std::move(s));
    return {};
  };
  struct Case {
    const char* name;
    Variation change;
    double memory, work;  // of a device, and of a step, as parts of what they were
    bool makes_sense;
  };
  const Variation nothing = [](Scenario&) { return true; };
  const Case cases[] = {
      {"half the bandwidth between nodes", bandwidth(true, 0.5), 1, 1, several},
      {"twice the bandwidth between nodes", bandwidth(true, 2), 1, 1, several},
      {"half the bandwidth inside nodes", bandwidth(false, 0.5), 1, 1, true},
      {"10 % less memory", nothing, kLessMemory, 1, result.capacity.v > 0},
      {"half the batch", batch(false), 1, 0.5, true},
      {"twice the batch", batch(true), 1, 2, true},
  };
  for (const Case& c : cases) {
    if (!c.makes_sense) continue;
    if (const auto done = try_change(c.name, c.change, c.memory, c.work); !done) {
      return done.error();
    }
  }
  for (const bool between : {true, false}) {
    if (between && !several) continue;
    for (const double end : {1 / kFarthest, kFarthest}) {
      Result<std::optional<TippingPoint>> point = tip(candidates, between, end);
      if (!point) return point.error();
      if (*point) report.tipping.push_back(std::move(**point));
    }
  }
  if (candidates.winner().strategy.world_size() <= kMostRanks) {
    Scenario slow = candidates.winner();
    const Result<Probe> before = prober(slow);
    slow.what_if.straggler_rank = 0;
    slow.what_if.straggler_slowdown = kSlower;
    const Result<Probe> after = prober(slow);
    if (!before) return before.error();
    if (!after) return after.error();
    report.changes.push_back({"a device that is 10 % slower", true,
                              after->step.v / before->step.v - 1, candidates.name(0), false, 0});
  }
  return report;
}

}  // namespace lockstep
