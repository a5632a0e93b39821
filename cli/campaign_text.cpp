#include "cli/campaign_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/format/format.hpp"
#include "core/plan/found_layout.hpp"

namespace lockstep {
namespace {

/// "3.09 h": hours or days from where seconds say nothing to people.
std::string long_time(Seconds t) {
  if (t.v >= 2 * 86400) return fmt::format("{:.3g} days", t.v / 86400);
  if (t.v >= 2 * 3600) return fmt::format("{:.3g} h", t.v / 3600);
  if (t.v >= 120) return fmt::format("{:.3g} min", t.v / 60);
  return time_text(t);
}

/// "30.8 M": four digits of a large number.
std::string large(double value) {
  const auto scaled = [](double v, const char* unit) { return fmt::format("{:.4g}{}", v, unit); };
  if (value >= 1e12) return scaled(value / 1e12, " T");
  if (value >= 1e9) return scaled(value / 1e9, " B");
  if (value >= 1e6) return scaled(value / 1e6, " M");
  return count_text(value);
}

std::string head(const CampaignAnswer& answer) {
  double tokens = 0;
  int gpus = 0;
  for (const CampaignPhase& phase : answer.plan.phases) {
    tokens += static_cast<double>(phase.steps) * phase.tokens_per_step;
    gpus = std::max(gpus, phase.gpus);
  }
  const bool days = answer.plan.deadline.has_value();
  std::string text =
      fmt::format("{} on {} GPUs; {} campaigns from seed {}\n",
                  days ? long_time(to_seconds(*answer.plan.deadline))
                       : large(tokens) + " " + trained_on(answer.facts.phases.front().scenario),
                  count_text(gpus), count_text(answer.summary.runs), answer.seed);
  const CampaignPhase& longest = answer.plan.phases[answer.interval.phase];
  const Seconds mean = longest.rates.mean_time();
  const PublishedFailures& source = published_failures(answer.facts.spec.failures);
  const bool given = std::any_of(longest.rates.rate.begin(), longest.rates.rate.end(),
                                 [](double rate) { return rate > 0; }) &&
                     source.source == FailureSource::None;
  text += "failures: " + (given ? std::string("as given") : std::string(source.where));
  if (mean.v > 0) text += ", one in " + long_time(mean);
  text += "\n";
  if (answer.summary.unfinished > 0) {
    text += fmt::format("{} of the campaigns make no progress: their figures are without meaning\n",
                        answer.summary.unfinished);
  }
  return text;
}

std::string figures(const CampaignAnswer& answer, const Screen& screen) {
  const CampaignSummary& s = answer.summary;
  TextTable table({"campaign", "median", "10 % are below", "10 % are above"});
  const auto add = [&](const char* name, const Spread& spread, auto text) {
    table.add({name, text(spread.median), text(spread.low), text(spread.high)});
  };
  const auto plain = [](double v) { return fmt::format("{:.1f}", v); };
  add("days", s.days, plain);
  add("GPU hours", s.gpu_hours, large);
  if (s.dollars.mean > 0) add("dollars", s.dollars, large);
  if (s.kwh.mean > 0) add("kWh", s.kwh, large);
  if (s.tonnes_co2.mean > 0) add("t of CO2", s.tonnes_co2, large);
  if (answer.plan.deadline) add("tokens", s.tokens, large);
  add("interruptions", s.interruptions, [](double v) { return count_text(v); });
  add("goodput", s.goodput, percent_text);
  return table.text(screen);
}

std::string parts(const CampaignAnswer& answer, const Screen& screen) {
  const CampaignSummary& s = answer.summary;
  TextTable table({"where the time goes", "mean", "days", "10 % are below", "10 % are above"});
  for (const auto part : Indices<CampaignPart>(kNumCampaignParts)) {
    const Spread& share = s.shares[to_size(part)];
    if (share.mean == 0) continue;
    table.add({std::string(to_string(part)), percent_text(share.mean),
               fmt::format("{:.2f}", share.mean * s.days.mean), percent_text(share.low),
               percent_text(share.high)});
  }
  return table.text(screen);
}

std::string phases(const CampaignAnswer& answer, const Screen& screen) {
  TextTable table({"phase",
                   {"tokens", 4},
                   "GPUs",
                   "step time",
                   {"checkpoint", 3},
                   {"every", 2},
                   {"stands still", 3},
                   {"restart", 1},
                   "goodput by theory"});
  for (std::size_t i = 0; i < answer.plan.phases.size(); ++i) {
    const CampaignPhase& phase = answer.plan.phases[i];
    table.add({phase.name, large(static_cast<double>(phase.steps) * phase.tokens_per_step),
               count_text(phase.gpus), time_text(to_seconds(phase.step)),
               bytes_text(answer.facts.phases[i].facts.checkpoint),
               long_time(static_cast<double>(phase.interval) * to_seconds(phase.wall_step())),
               time_text(to_seconds(phase.pause)), long_time(to_seconds(phase.restart)),
               percent_text(answer.closed_goodput[i])});
  }
  return table.text(screen);
}

std::string interval(const CampaignAnswer& answer) {
  const IntervalAnswer& i = answer.interval;
  if (i.simulated.v <= 0) return "";
  return fmt::format(
      "between checkpoints: Young {}, Daly {}, simulated {}; taken {} (goodput {}, with the "
      "simulated one {})\n",
      long_time(i.young), long_time(i.daly), long_time(i.simulated), long_time(i.taken),
      percent_text(i.goodput), percent_text(i.best_goodput));
}

std::string spares(const CampaignAnswer& answer) {
  const double failing = answer.summary.failures[to_size(FailureCause::Gpu)] +
                         answer.summary.failures[to_size(FailureCause::Node)];
  if (failing == 0) return "";
  const int has = answer.plan.spare_nodes;
  return fmt::format(
      "spare nodes: {} are enough for 99 % of the time{}\n", answer.spares,
      has < 0 ? " (as many as it takes are assumed)" : fmt::format("; {} given", has));
}

std::string helps(const CampaignAnswer& answer, const Screen& screen) {
  const bool priced = answer.summary.dollars.mean > 0;
  std::vector<Heading> columns = {"what would help", "days saved"};
  if (priced) columns.emplace_back("dollars saved");
  columns.emplace_back("goodput");
  TextTable table(columns);
  for (const CampaignGain& gain : answer.gains) {
    std::vector<std::string> row = {gain.words, fmt::format("{:.2f}", gain.days)};
    if (priced) {
      row.push_back((gain.dollars < 0 ? "-" : "") + large(std::abs(gain.dollars)));
    }
    row.push_back(percent_text(gain.goodput));
    table.add(row);
  }
  return table.text(screen);
}

}  // namespace

std::string campaign_text(const CampaignAnswer& answer, const Screen& screen) {
  const std::string notes = interval(answer) + spares(answer);
  std::string text = wrapped(head(answer), screen, 2) + "\n" + figures(answer, screen) + "\n" +
                     parts(answer, screen) + "\n" + phases(answer, screen) + "\n" +
                     wrapped(notes, screen, 2) + (notes.empty() ? "" : "\n") +
                     helps(answer, screen);
  if (answer.summary.dollars.mean == 0) {
    text += wrapped("\nNo dollars: the cluster has no price (cluster.device.dollars_per_hour).\n",
                    screen, 2);
  }
  return text;
}

}  // namespace lockstep
