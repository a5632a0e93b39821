#include "core/campaign/plan.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "core/campaign/closed_forms.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {
namespace {

/// The scenario of a phase: that of its file, or the campaign's with another batch.
Result<Scenario> phase_scenario(const Scenario& base, const CampaignPhaseSpec& phase) {
  if (!phase.scenario.empty()) {
    const std::filesystem::path path = std::filesystem::path(base.directory) / phase.scenario;
    LoadedScenario loaded = load_scenario(path.lexically_normal().string(), {});
    if (!loaded.ok()) return loaded.errors.front();
    if (loaded.points.size() > 1) {
      return invalid("phase '" + phase.name + "': " + phase.scenario +
                     " is a sweep, of which a phase takes one point");
    }
    Scenario own = std::move(loaded.points.front().scenario);
    // What the file of the phase does not say is that of the campaign.
    DeviceSpec& device = own.cluster.device;
    if (device.dollars_per_hour == 0) {
      device.dollars_per_hour = base.cluster.device.dollars_per_hour;
    }
    if (device.watts == 0) device.watts = base.cluster.device.watts;
    return own;
  }
  Scenario scenario = base;
  if (phase.seq_len > 0) scenario.training.seq_len = phase.seq_len;
  if (phase.global_batch_size > 0) scenario.training.global_batch_size = phase.global_batch_size;
  if (const std::vector<Fault> faults = validate(scenario); !faults.empty()) {
    return invalid("phase '" + phase.name + "': " + faults.front().error.message);
  }
  return scenario;
}

/// The tokens of each phase, in order; those of the one without tokens or share are the rest.
std::vector<double> phase_tokens(const std::vector<CampaignPhaseSpec>& phases, double total) {
  std::vector<double> tokens;
  double known = 0;
  for (const CampaignPhaseSpec& phase : phases) {
    tokens.push_back(phase.tokens > 0 ? phase.tokens : phase.share * total);
    known += tokens.back();
  }
  for (double& t : tokens) {
    if (t == 0) t = std::max(0.0, total - known);
  }
  return tokens;
}

double rate_of(const ClusterSpec& cluster, const CampaignSpec& spec, bool reads) {
  const double node =
      spec.save_to == SaveTo::Drives ? cluster.drives.all(reads).v : spec.storage_per_node.v;
  return node * cluster.nodes;
}

/// What slow GPUs add to a step as a part of it: all wait while one of them is slow.
double slowed_part(const CampaignSpec& spec, int gpus) {
  if (spec.straggler_share >= 1) return spec.straggler_slowdown - 1;
  const double none_slow = gpus * std::log1p(-spec.straggler_share);
  return -std::expm1(none_slow) * (spec.straggler_slowdown - 1);
}

/// The interval that the scenario gives, or else the one that the closed form finds best; at least
/// so long that a file is written before the next begins.
std::int64_t interval_of(const CampaignPhase& phase, int given) {
  const Seconds mean = phase.rates.mean_time();
  if (given == 0 && mean.v <= 0) return phase.steps;
  const double step = to_seconds(phase.wall_step()).v;
  const double wanted =
      given > 0 ? given : std::round(daly_interval(to_seconds(phase.pause), mean).v / step);
  const double least = std::ceil(to_seconds(phase.late).v / step);
  const auto most = static_cast<double>(std::max<std::int64_t>(1, phase.steps));
  return static_cast<std::int64_t>(std::clamp(std::max(wanted, least), 1.0, most));
}

void set_saves(const PhaseFacts& facts, const CampaignSpec& spec, CampaignPhase& phase) {
  const ClusterSpec& cluster = facts.scenario.cluster;
  const auto bytes = static_cast<double>(facts.facts.checkpoint.v);
  const Seconds write{bytes / rate_of(cluster, spec, false)};
  phase.pause = to_campaign_time(write);
  const bool copies = spec.save == SaveMode::Background && cluster.device.host_bandwidth.v > 0;
  if (copies) {
    const Seconds copy = facts.facts.fullest_rank / cluster.device.host_bandwidth;
    phase.pause = to_campaign_time(copy);
    phase.late = to_campaign_time(write);
  }
  const Seconds read{bytes / rate_of(cluster, spec, true)};
  phase.restart = to_campaign_time(spec.requeue + spec.load + spec.warmup + read +
                                   double(phase.gpus) * spec.communicator_per_gpu);
}

CampaignPhase plan_phase(const PhaseFacts& facts, const CampaignSpec& spec) {
  const Scenario& s = facts.scenario;
  CampaignPhase phase;
  phase.name = facts.name;
  phase.tokens_per_step = static_cast<double>(s.tokens_per_step());
  const int ranks = s.strategy.world_size();
  phase.gpus = std::max(1, ranks / s.cluster.ranks_per_device);
  phase.gpus_per_node = std::min(phase.gpus, s.cluster.devices_per_node);
  const int nodes = (phase.gpus + phase.gpus_per_node - 1) / phase.gpus_per_node;
  phase.dollars_per_gpu_hour = s.cluster.device.dollars_per_hour;
  phase.watts_per_gpu = s.cluster.device.watts;
  phase.rates = failure_rates(spec, job_size(spec, phase.gpus, nodes));
  const Seconds step = facts.facts.step;
  phase.step = std::max(CampaignTime{1}, to_campaign_time(step));
  phase.slowed = to_campaign_time(slowed_part(spec, phase.gpus) * step);
  if (spec.evaluation_interval > 0) {
    phase.evaluation = to_campaign_time((1.0 / spec.evaluation_interval) * spec.evaluation);
  }
  const double seconds = spec.days * 24 * 3600;
  const double steps = facts.tokens > 0 ? facts.tokens / phase.tokens_per_step
                                        : seconds / to_seconds(phase.step).v + 1;
  phase.steps = static_cast<std::int64_t>(std::ceil(std::min(steps, 4e15)));
  set_saves(facts, spec, phase);
  phase.given_interval = s.checkpoint.interval > 0;
  phase.interval = interval_of(phase, s.checkpoint.interval);
  return phase;
}

}  // namespace

CampaignTime to_campaign_time(Seconds t) {
  constexpr double kMost = static_cast<double>(kLongestCampaign.count());
  const double nanoseconds = t.v * 1e9;
  return nanoseconds < kMost ? CampaignTime{std::llround(nanoseconds)} : kLongestCampaign;
}

Seconds to_seconds(CampaignTime t) { return {static_cast<double>(t.count()) / 1e9}; }

Result<CampaignFacts> campaign_facts(const Scenario& scenario, const FactsOracle& oracle) {
  CampaignFacts facts{scenario.campaign, {}};
  CampaignSpec& spec = facts.spec;
  if (spec.tokens == 0 && spec.days == 0) spec.tokens = scenario.training.total_tokens;
  if (spec.phases.empty()) spec.phases.push_back({scenario.name, {}, {}, {}, {}, {}});
  const std::vector<double> tokens = phase_tokens(spec.phases, spec.tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    CampaignPhaseSpec& phase = spec.phases[i];
    if (phase.name.empty()) phase.name = std::to_string(i + 1);
    if (tokens[i] == 0 && spec.days == 0) {
      return invalid(
          "how much is trained? Give campaign.tokens or campaign.days, such as "
          "--set campaign.tokens=15.6e12");
    }
    Result<Scenario> own = phase_scenario(scenario, phase);
    if (!own) return own.error();
    Result<StepFacts> step = oracle(*own);
    if (!step) {
      Error fault = step.error();
      if (tokens.size() > 1) fault.message = "phase '" + phase.name + "': " + fault.message;
      return fault;
    }
    if (own->tokens_per_step() == 0) {
      return invalid("the synthetic model trains no tokens, so that no campaign can be counted");
    }
    facts.phases.push_back({phase.name, std::move(*own), tokens[i], *step});
  }
  return facts;
}

CampaignPlan plan_campaign(const CampaignFacts& facts) {
  const CampaignSpec& spec = facts.spec;
  CampaignPlan plan;
  for (const PhaseFacts& phase : facts.phases) plan.phases.push_back(plan_phase(phase, spec));
  plan.detection = to_campaign_time(spec.detection);
  plan.swap = to_campaign_time(spec.swap);
  plan.repair = to_campaign_time(spec.repair);
  plan.spare_nodes = spec.spare_nodes;
  if (spec.days > 0) plan.deadline = to_campaign_time({spec.days * 24 * 3600});
  plan.pue = spec.pue;
  plan.carbon_g_per_kwh = spec.carbon_g_per_kwh;
  return plan;
}

Seconds mean_recovery(const CampaignPlan& plan, const CampaignPhase& phase) {
  return to_seconds(plan.detection + phase.restart) +
         phase.rates.node_share() * to_seconds(plan.swap);
}

double closed_goodput(const CampaignPlan& plan, const CampaignPhase& phase) {
  const Seconds wall = to_seconds(phase.wall_step());
  const std::int64_t interval = std::min(phase.interval, phase.steps);
  const double kept = renewal_goodput({static_cast<double>(interval) * wall,
                                       to_seconds(phase.pause), to_seconds(phase.late),
                                       mean_recovery(plan, phase), phase.rates.mean_time()});
  return kept * to_seconds(phase.step).v / wall.v;
}

}  // namespace lockstep
