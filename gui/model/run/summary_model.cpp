#include "gui/model/run/summary_model.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "core/analysis/name_statistics.hpp"
#include "core/analysis/stragglers.hpp"
#include "core/analysis/trace_report.hpp"
#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"

namespace lockstep::gui {
namespace {

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text,
                value == static_cast<double>(static_cast<std::int64_t>(value)) ? "%.0f" : "%.1f",
                value);
  return text;
}

Card unknown(std::string title, std::string why) {
  return {std::move(title), "–", std::move(why), false};
}

Card throughput(const Report& r) {
  if (r.images_per_s > 0) return {"Images/s", count_text(r.images_per_s), "all ranks together"};
  if (r.tokens_per_s > 0) return {"Tokens/s", count_text(r.tokens_per_s), "all ranks together"};
  return unknown("Tokens/s", "it is not known how many tokens a step has");
}

/// The card of a utilization. `what` says of which flops `fraction` is.
Card utilization(std::string title, double fraction, Flops flops, const std::string& what) {
  if (!(flops.v > 0)) return unknown(std::move(title), "the flops of a step are not known");
  if (!(fraction > 0)) return unknown(std::move(title), "the device's peak rate is not known");
  return {std::move(title), percent_text(fraction), flops_text(flops) + " " + what};
}

Card memory(const Report& r, const Scenario* scenario) {
  const auto fullest =
      std::max_element(r.ranks.begin(), r.ranks.end(),
                       [](const auto& a, const auto& b) { return a.peak_memory < b.peak_memory; });
  if (fullest == r.ranks.end() || fullest->peak_memory.v == 0) {
    return unknown("Peak memory", "the trace tells nothing of memory");
  }
  std::string note = "rank " + std::to_string(fullest->rank);
  if (scenario && scenario->cluster.device.memory.v > 0) {
    note += ", of " + bytes_text(scenario->cluster.device.memory);
  }
  return {"Peak memory", bytes_text(fullest->peak_memory), note};
}

Card cost(const Report& r, const Scenario* scenario) {
  const char* title = "Cost per 10⁹ tokens";
  if (r.dollars_per_billion_tokens > 0) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g $", r.dollars_per_billion_tokens);
    return {title, text, "devices × hours × price"};
  }
  if (r.images_per_s > 0) return unknown(title, "this model trains on images");
  if (!(r.tokens_per_s > 0)) return unknown(title, "it is not known how many tokens a step has");
  return unknown(title,
                 scenario ? "dollars_per_hour of " + scenario->cluster.device.name + " is not given"
                          : "the price of the devices is not known");
}

/// The begin and the end of a name that is too long for a card.
std::string shortened(const std::string& name) {
  constexpr std::size_t kEnds = 7;
  if (name.size() <= 2 * kEnds + 1) return name;
  return name.substr(0, kEnds) + "…" + name.substr(name.size() - kEnds);
}

/// Of a trace from elsewhere: what a model or a price would have to tell is left out, and what
/// profiles are asked for is put in.
std::vector<Card> cards_of_profile(std::vector<Card> cards, const RunView& run,
                                   const Report& report) {
  std::erase_if(cards, [](const Card& card) { return !card.known; });
  if (run.trace.spans.empty()) {  // a trace that tells of memory only
    std::erase_if(cards, [](const Card& card) { return card.title != "Peak memory"; });
    return cards;
  }
  if (!tells_device_work(report)) {
    std::erase_if(cards, [](const Card& card) { return card.title != "Step time"; });
    cards.push_back(unknown("Bubble", "no device computes or transfers in this trace"));
    return cards;
  }
  const TimeParts parts = mean_parts(report);
  const double step = sum(parts).v, hidden = parts[1].v, moving = hidden + parts[2].v;
  if (step > 0) {
    cards.push_back({"Computation", percent_text((parts[0].v + hidden) / step),
                     "of the step, mean over ranks"});
  }
  if (moving > 0) {
    cards.push_back({"Hidden communication", percent_text(hidden / moving),
                     "of " + time_text({moving}) + " that transfers run"});
  }
  const auto names = statistics_by_name(run.trace, run.self);
  const auto kernels =
      std::count_if(names.begin(), names.end(), [](const NameStatistics& n) { return !n.host; });
  if (kernels > 0) {
    cards.push_back({"Kernels", count_text(static_cast<double>(kernels)) + " names",
                     percent_text(names.front().share) +
                         " of the time: " + shortened(run.trace.names[names.front().name])});
  }
  return cards;
}

}  // namespace

// ---------------------------------------------------------------- numbers

TimeParts parts_of(const RankCauses& rank) {
  return {rank.computation, rank.overlapping, rank.communication, rank.waiting, rank.other};
}

TimeParts mean_parts(const Report& report) {
  TimeParts mean{};
  const double share =
      1.0 / static_cast<double>(std::max<std::size_t>(report.causes.ranks.size(), 1));
  for (const RankCauses& rank : report.causes.ranks) {
    const TimeParts parts = parts_of(rank);
    for (std::size_t i = 0; i < parts.size(); ++i) mean[i] += share * parts[i];
  }
  return mean;
}

Seconds sum(const TimeParts& parts) {
  Seconds total;
  for (const Seconds part : parts) total += part;
  return total;
}

Seconds SummaryModel::longest() const {
  Seconds longest;
  for (const PartsRow& row : rows) longest = std::max(longest, sum(row.parts));
  return longest;
}

Report report_of(const RunView& run) { return run.report ? *run.report : analyze(run.trace); }

std::vector<Card> cards_of(const Report& r, const Scenario* scenario) {
  const double share = r.step_time.v > 0 ? r.exposed_comm.v / r.step_time.v : 0;
  std::string of_step =
      std::to_string(r.world_size) + (r.world_size == 1 ? " rank, " : " ranks, ") + r.backend;
  if (r.certainty) {
    const LikelyFactors& likely = r.certainty->step_time;
    of_step += "; " + likely_text(r.step_time, likely.least, likely.most);
  }
  return {
      {"Step time", time_text(r.step_time), of_step},
      throughput(r),
      memory(r, scenario),
      utilization("MFU", r.mfu, r.model_flops_per_step, "per step"),
      utilization("HFU", r.hfu, r.hardware_flops_per_step,
                  r.hardware_flops_per_step > r.model_flops_per_step ? "with what is recomputed"
                                                                     : "nothing is recomputed"),
      cost(r, scenario),
      {"Bubble", percent_text(r.bubble_fraction), "of the step, mean over ranks"},
      {"Bubble over ideal", percent_text(r.bubble_over_ideal), "over the busiest rank's compute"},
      {"Exposed communication", time_text(r.exposed_comm),
       percent_text(share) + " of the step, mean over ranks"},
  };
}

SummaryPtr make_summary(const RunPtr& run) {
  auto model = std::make_shared<SummaryModel>();
  model->run = run;
  model->report = report_of(*run);
  model->cards = cards_of(model->report, run->scenario ? &*run->scenario : nullptr);
  if (run->from_elsewhere()) model->cards = cards_of_profile(model->cards, *run, model->report);

  std::map<TimeParts, std::size_t> row_of;
  const std::vector<RankCauses>& ranks = model->report.causes.ranks;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const TimeParts parts = parts_of(ranks[r]);
    const auto [it, fresh] = row_of.try_emplace(parts, model->rows.size());
    if (fresh) model->rows.push_back({{}, parts});
    model->rows[it->second].ranks.push_back(static_cast<Rank>(r));
  }

  // Arrivals are those of ranks with spans of their own, with the longest wait first.
  struct Worst {
    SpanId span;
    SimTime waited;
  };
  std::map<Rank, Worst> worst;
  for (const StepAnalysis& step : run->steps) {
    for (const Arrival& arrival : find_stragglers(step.graph).list) {
      const Worst here{step.id(arrival.last), arrival.waited};
      const auto [it, fresh] = worst.try_emplace(step.graph[arrival.last].rank, here);
      if (!fresh && it->second.waited < here.waited) it->second = here;
    }
  }
  for (const Rank own : run->trace.same_as) {
    const auto found = worst.find(own);
    model->worst_arrival.push_back(found == worst.end() ? std::nullopt
                                                        : std::optional(found->second.span));
  }
  return model;
}

// ---------------------------------------------------------------- words

std::string label_of(const Report& report, std::vector<Rank> ranks) {
  for (Rank& rank : ranks) rank = number_in_job(report, to_size(rank));
  return label_of(ranks);
}

std::string label_of(const std::vector<Rank>& ranks) {
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front());
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t j = i + 1;
    while (j < ranks.size() && ranks[j] == ranks[j - 1] + 1) ++j;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (j > i + 1) text += "–" + std::to_string(ranks[j - 1]);
    i = j;
    if (text.size() > 9 && i < ranks.size()) {
      return text + "… (" + std::to_string(ranks.size()) + ")";
    }
  }
  return "ranks " + text;
}

std::string straggler_text(const SummaryModel& model) {
  const auto& ranks = model.report.causes.ranks;
  const auto worst = std::max_element(
      ranks.begin(), ranks.end(),
      [](const RankCauses& a, const RankCauses& b) { return a.caused_wait < b.caused_wait; });
  if (worst == ranks.end() || !(worst->caused_wait.v > 0)) {
    return "Nobody comes late to a collective.";
  }
  const std::size_t rank = to_size(worst - ranks.begin());
  return "Rank " + std::to_string(number_in_job(model.report, rank)) + " comes last to " +
         decimal(worst->last_arrivals) +
         (worst->last_arrivals == 1 ? " collective" : " collectives") +
         " of a step, and others wait " + time_text(worst->caused_wait) + " for it.";
}

std::string staleness_text(const SummaryModel& model) {
  std::map<int, std::vector<Rank>, std::greater<>> ranks;  // by the number of updates they miss
  for (const RankReport& rank : model.report.ranks) {
    if (rank.weight_staleness > 0) ranks[rank.weight_staleness].push_back(rank.rank);
  }
  if (ranks.empty()) return "";
  std::string text = "Forward passes read old weights. Updates that they miss:";
  int named = 0;
  for (const auto& [missed, who] : ranks) {
    if (++named > 4) return text + ", …";
    text += (named > 1 ? ", " : " ") + std::to_string(missed) + " on " + label_of(who);
  }
  return text + ".";
}

TableContent rank_content(const SummaryPtr& model) {
  const auto rank = [model](std::size_t row) -> const RankCauses& {
    return model->report.causes.ranks[row];
  };
  const auto time = [](std::string title, const std::function<Seconds(std::size_t)>& value) {
    return TableColumn{std::move(title), [value](std::size_t row) { return time_text(value(row)); },
                       [value](std::size_t row) { return value(row).v; }};
  };
  TableContent content;
  content.rows = model->report.causes.ranks.size();
  content.columns = {
      {"Rank",
       [model](std::size_t row) { return std::to_string(number_in_job(model->report, row)); },
       [](std::size_t row) { return static_cast<double>(row); }},
      {"Comes last", [rank](std::size_t row) { return decimal(rank(row).last_arrivals); },
       [rank](std::size_t row) { return rank(row).last_arrivals; }},
      time("Others wait", [rank](std::size_t row) { return rank(row).caused_wait; }),
      time("Waits", [rank](std::size_t row) { return rank(row).own_wait; }),
  };
  if (!staleness_text(*model).empty()) {
    const auto missed = [model](std::size_t row) {
      return model->report.ranks[row].weight_staleness;
    };
    content.columns.insert(
        content.columns.begin() + 4,
        {"Missed updates", [missed](std::size_t row) { return std::to_string(missed(row)); },
         [missed](std::size_t row) { return static_cast<double>(missed(row)); }});
  }
  for (std::size_t part = 0; part < kTimePartNames.size(); ++part) {
    content.columns.push_back(
        time(std::string(kTimePartNames[part]),
             [rank, part](std::size_t row) { return parts_of(rank(row))[part]; }));
  }
  return content;
}

Selection place_of(const SummaryModel& model, Rank rank) {
  if (const auto span = model.worst_arrival[rank]) return {span, std::nullopt, {}};
  return {std::nullopt, std::nullopt, {rank}};
}

}  // namespace lockstep::gui
