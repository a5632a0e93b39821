#include "core/campaign/questions.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/campaign/closed_forms.hpp"

namespace lockstep {
namespace {

/// The mean length of campaigns, in seconds.
double mean_length(const CampaignPlan& plan, std::uint64_t seed, int runs) {
  double sum = 0;
  for (int i = 0; i < runs; ++i) {
    sum += to_seconds(simulate_campaign(plan, seed + static_cast<std::uint64_t>(i)).total()).v;
  }
  return sum / runs;
}

/// Where the parabola that fits the points best, by least squares, is least; the mean of the x if
/// it opens downwards. The x are symmetrical about 0.
double least_of_parabola(const std::vector<std::pair<double, double>>& points) {
  double n = 0, x2 = 0, x4 = 0, y0 = 0, xy = 0, x2y = 0;
  for (const auto& [x, y] : points) {
    n += 1;
    x2 += x * x;
    x4 += x * x * x * x;
    y0 += y;
    xy += x * y;
    x2y += x * x * y;
  }
  const double slope = xy / x2, curvature = (x2y - x2 * y0 / n) / (x4 - x2 * x2 / n);
  return curvature > 0 ? -slope / (2 * curvature) : 0;
}

struct Change {
  std::string words;
  std::function<void(CampaignFacts&)> make;
};

void scale_failures(CampaignSpec& spec, double factor) {
  const CampaignSpec before = spec;
  const auto scaled = [&](FailureCause cause) { return factor * mean_time_of(before, cause); };
  spec.gpu_mtbf = scaled(FailureCause::Gpu);
  spec.node_mtbf = scaled(FailureCause::Node);
  spec.switch_mtbf = scaled(FailureCause::Switch);
  spec.job_mtbf = scaled(FailureCause::Job);
}

void never_fail(CampaignSpec& spec) {
  spec.failures = FailureSource::None;
  spec.gpu_mtbf = spec.node_mtbf = spec.switch_mtbf = spec.job_mtbf = {};
}

std::vector<Change> changes_of(const CampaignFacts& facts, const CampaignPlan& plan) {
  const CampaignSpec& spec = facts.spec;
  std::vector<Change> list;
  const bool given = std::any_of(plan.phases.begin(), plan.phases.end(),
                                 [](const CampaignPhase& phase) { return phase.given_interval; });
  if (given) {
    list.push_back({"the best interval between checkpoints", [](CampaignFacts& f) {
                      for (PhaseFacts& phase : f.phases) phase.scenario.checkpoint.interval = 0;
                    }});
  }
  if (spec.save == SaveMode::Blocking) {
    list.push_back(
        {"save in the background", [](CampaignFacts& f) { f.spec.save = SaveMode::Background; }});
  }
  list.push_back({"storage twice as fast", [](CampaignFacts& f) {
                    f.spec.storage_per_node = {2 * f.spec.storage_per_node.v};
                    for (PhaseFacts& phase : f.phases) {
                      DriveSpec& drives = phase.scenario.cluster.drives;
                      drives.count *= 2;
                    }
                  }});
  constexpr Seconds kMinute{60};
  if (spec.detection > kMinute) {
    list.push_back(
        {"detect failures within a minute", [=](CampaignFacts& f) { f.spec.detection = kMinute; }});
  }
  list.push_back({"restart in half the time", [](CampaignFacts& f) {
                    f.spec.requeue = 0.5 * f.spec.requeue;
                    f.spec.load = 0.5 * f.spec.load;
                    f.spec.communicator_per_gpu = 0.5 * f.spec.communicator_per_gpu;
                    f.spec.warmup = 0.5 * f.spec.warmup;
                  }});
  list.push_back({"half as many failures", [](CampaignFacts& f) { scale_failures(f.spec, 2); }});
  if (spec.spare_nodes >= 0) {
    const int enough = spares_needed(plan);
    list.push_back({std::to_string(enough) + " spare nodes",
                    [=](CampaignFacts& f) { f.spec.spare_nodes = enough; }});
  }
  if (spec.straggler_share > 0 && spec.straggler_slowdown > 1) {
    list.push_back({"no slow GPUs", [](CampaignFacts& f) { f.spec.straggler_share = 0; }});
  }
  list.push_back({"no failures at all", [](CampaignFacts& f) { never_fail(f.spec); }});
  return list;
}

}  // namespace

std::size_t longest_phase(const CampaignPlan& plan) {
  const auto length = [](const CampaignPhase& phase) {
    return static_cast<double>(phase.steps) * to_seconds(phase.step).v;
  };
  const auto longest = std::max_element(
      plan.phases.begin(), plan.phases.end(),
      [&](const CampaignPhase& a, const CampaignPhase& b) { return length(a) < length(b); });
  return static_cast<std::size_t>(longest - plan.phases.begin());
}

IntervalAnswer interval_answer(const CampaignPlan& plan, std::size_t phase, std::uint64_t seed,
                               int runs) {
  constexpr int kPoints = 13;                     // an odd number
  constexpr double kWidest = 1.0986122886681098;  // ln 3
  CampaignPlan alone = plan;
  alone.phases = {plan.phases[phase]};
  alone.deadline.reset();
  CampaignPhase& tried = alone.phases.front();
  const Seconds step = to_seconds(tried.wall_step());
  IntervalAnswer answer;
  answer.phase = phase;
  answer.taken = static_cast<double>(tried.interval) * step;
  answer.goodput = answer.best_goodput = closed_goodput(alone, tried);
  const Seconds mean = tried.rates.mean_time(), pause = to_seconds(tried.pause);
  if (mean.v <= 0) return answer;
  answer.young = young_interval(pause, mean);
  answer.daly = daly_interval(pause, mean);
  std::vector<std::pair<double, double>> points;
  const auto steps_of = [&](double factor) {
    const double steps = std::round(factor * answer.daly.v / step.v);
    return static_cast<std::int64_t>(std::clamp(steps, 1.0, static_cast<double>(tried.steps)));
  };
  for (int i = 0; i < kPoints; ++i) {
    const double x = kWidest * (2.0 * i / (kPoints - 1) - 1);
    tried.interval = steps_of(std::exp(x));
    points.emplace_back(x, mean_length(alone, seed, runs));
  }
  answer.simulated = std::exp(least_of_parabola(points)) * answer.daly;
  tried.interval = steps_of(answer.simulated.v / answer.daly.v);
  answer.best_goodput = closed_goodput(alone, tried);
  return answer;
}

std::vector<CampaignGain> campaign_gains(const CampaignFacts& facts, std::uint64_t seed, int runs) {
  const CampaignPlan plan = plan_campaign(facts);
  const CampaignSummary now = summarize_campaigns(plan, seed, runs);
  std::vector<CampaignGain> list;
  for (const Change& change : changes_of(facts, plan)) {
    CampaignFacts changed = facts;
    change.make(changed);
    const CampaignSummary then = summarize_campaigns(plan_campaign(changed), seed, runs);
    list.push_back({change.words, now.days.mean - then.days.mean,
                    now.dollars.mean - then.dollars.mean, then.goodput.mean});
  }
  std::stable_sort(list.begin(), list.end(), [](const CampaignGain& a, const CampaignGain& b) {
    return a.goodput > b.goodput;
  });
  return list;
}

int spares_needed(const CampaignPlan& plan) {
  const CampaignPhase& phase = plan.phases[longest_phase(plan)];
  return spares_needed(phase.rates.total() * phase.rates.node_share(), to_seconds(plan.repair));
}

}  // namespace lockstep
