#include "core/campaign/summary.hpp"

#include <numeric>
#include <vector>

#include "core/validation/statistics.hpp"

namespace lockstep {
namespace {

Spread spread_of(std::vector<double> values) {
  const auto count = static_cast<double>(values.size());
  Spread spread;
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  spread.median = percentile(values, 0.5);
  spread.low = percentile(values, 0.1);
  spread.high = percentile(std::move(values), 0.9);
  return spread;
}

}  // namespace

CampaignCosts campaign_costs(const CampaignPlan& plan, const CampaignRun& run) {
  CampaignCosts costs;
  for (std::size_t i = 0; i < run.phases.size(); ++i) {
    const CampaignPhase& phase = plan.phases[i];
    const double hours = to_seconds(run.phases[i]).v / 3600;
    const int spares = plan.spare_nodes > 0 ? plan.spare_nodes * phase.gpus_per_node : 0;
    costs.days += hours / 24;
    costs.gpu_hours += hours * phase.gpus;
    costs.dollars += hours * (phase.gpus + spares) * phase.dollars_per_gpu_hour;
    costs.kwh += hours * phase.gpus * phase.watts_per_gpu * plan.pue / 1e3;
  }
  costs.tonnes_co2 = costs.kwh * plan.carbon_g_per_kwh / 1e6;
  return costs;
}

CampaignSummary summarize_campaigns(const CampaignPlan& plan, std::uint64_t seed, int runs) {
  CampaignSummary summary;
  summary.runs = runs;
  std::vector<double> days, gpu_hours, dollars, kwh, tonnes, tokens, goodput, interruptions;
  std::array<std::vector<double>, kNumCampaignParts> shares;
  for (int i = 0; i < runs; ++i) {
    const CampaignRun run = simulate_campaign(plan, seed + static_cast<std::uint64_t>(i));
    const CampaignCosts costs = campaign_costs(plan, run);
    days.push_back(costs.days);
    gpu_hours.push_back(costs.gpu_hours);
    dollars.push_back(costs.dollars);
    kwh.push_back(costs.kwh);
    tonnes.push_back(costs.tonnes_co2);
    tokens.push_back(run.tokens);
    goodput.push_back(run.goodput());
    interruptions.push_back(run.interruptions());
    if (!run.finished) ++summary.unfinished;
    const double all = to_seconds(run.total()).v;
    for (std::size_t part = 0; part < kNumCampaignParts; ++part) {
      shares[part].push_back(to_seconds(run.parts[part]).v / all);
    }
    for (std::size_t cause = 0; cause < kNumCauses; ++cause) {
      summary.failures[cause] += static_cast<double>(run.failures[cause]) / runs;
    }
  }
  summary.days = spread_of(std::move(days));
  summary.gpu_hours = spread_of(std::move(gpu_hours));
  summary.dollars = spread_of(std::move(dollars));
  summary.kwh = spread_of(std::move(kwh));
  summary.tonnes_co2 = spread_of(std::move(tonnes));
  summary.tokens = spread_of(std::move(tokens));
  summary.goodput = spread_of(std::move(goodput));
  summary.interruptions = spread_of(std::move(interruptions));
  for (std::size_t part = 0; part < kNumCampaignParts; ++part) {
    summary.shares[part] = spread_of(std::move(shares[part]));
  }
  return summary;
}

}  // namespace lockstep
