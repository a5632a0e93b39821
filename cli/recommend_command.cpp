// lockstep recommend: the fastest layout of a model on a cluster, and beside it what the rules of
// thumb say, each with the best layout of its kind and why that one is slower.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "backends/simulated_step.hpp"
#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "cli/recommend_scenario.hpp"
#include "cli/time_shares.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/memory/device_memory.hpp"
#include "core/plan/best_first.hpp"
#include "core/plan/explain.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

/// The best layout of a kind, as it was simulated in full.
struct Answer {
  std::optional<FoundLayout> found;
  std::optional<EstimatedLayout> estimated;
  std::string failure;  // if there is none that fits
};

/// What all searches of a command share.
struct Searches {
  int threads = 1;
  TimeShares time;
  const Console& console;
  Clock::time_point start = Clock::now();
  bool stopped = false;  // whether one of them ended before it had looked at everything

  double now() const { return std::chrono::duration<double>(Clock::now() - start).count(); }

  Result<SpaceResult> run(const Scenario& scenario, const StrategyShape* shape, double margin) {
    SpaceOptions options;
    options.threads = threads;
    options.stop = [this] { return time.is_over(now()) || (console.cancel && *console.cancel); };
    if (shape) {
      options.constraints.wanted = [shape](const LayoutPoint& p) { return shape->has(p); };
    }
    const Bytes memory = memory_per_rank(scenario.cluster, ranks_to_divide(scenario));
    options.most_memory =
        Bytes{static_cast<std::int64_t>(static_cast<double>(memory.v) / (1 + margin))};
    Result<SpaceResult> result = search_space(scenario, simulated_layout, simulated_probe, options);
    stopped = stopped || (result ? result->stopped : options.stop());
    return result;
  }
};

/// The best layout of that shape, or of any, that leaves as much memory free as runs take more than
/// is simulated.
Answer answer_of(const Scenario& scenario, const StrategyShape* shape, Searches& searches) {
  searches.time.begin_task(searches.now());
  const Result<SpaceResult> result = searches.run(scenario, shape, kMeasuredMemoryOver);
  Answer answer;
  if (!result) {
    answer.failure = result.error().message;
    if (shape || searches.stopped) return answer;
    // How near the best comes that does not leave it free is worth knowing.
    const Result<SpaceResult> tight = searches.run(scenario, shape, 0);
    if (!tight) return answer;
    const FoundLayout& found = tight->found.front();
    answer.failure = fmt::format(
        "none leaves {} of memory free, which runs may take more than is simulated "
        "(docs/validation.md); nearest is {}, which needs {} of {}",
        percent_text(1 - 1 / (1 + kMeasuredMemoryOver)), layout_name(found.scenario),
        bytes_text(found.figures.memory.needed),
        bytes_text(memory_per_rank(scenario.cluster, ranks_to_divide(scenario))));
    return answer;
  }
  answer.found = result->found.front();
  for (const EstimatedLayout& e : result->estimated) {
    if (e.point == answer.found->point) answer.estimated = e;
  }
  return answer;
}

struct RuleResult {
  RuleAnswer rule;
  Answer answer = {};  // without anything if the rule has no answer
  double slower = 0;
  std::string why = {};
};

/// The rules' answers, which are not searched yet.
std::vector<RuleResult> rules_of(const Recommendation& asked) {
  std::vector<RuleResult> results;
  for (RuleAnswer& rule : rules_of_thumb(asked.question)) results.push_back({std::move(rule)});
  return results;
}

/// The first rule with an answer that means the same kind of layout; such rules share one search.
std::size_t first_alike(const std::vector<RuleResult>& rules, std::size_t i) {
  const auto alike = [&](const RuleResult& other) {
    return !other.rule.strategy.empty() && other.rule.shape == rules[i].rule.shape;
  };
  return static_cast<std::size_t>(std::find_if(rules.begin(), rules.end(), alike) - rules.begin());
}

/// How many searches the rules are.
std::size_t searches_of(const std::vector<RuleResult>& rules) {
  std::size_t searches = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) searches += first_alike(rules, i) == i;
  return searches;
}

void search_rules(std::vector<RuleResult>& rules, const Recommendation& asked, Searches& searches) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].rule.strategy.empty()) continue;
    const std::size_t first = first_alike(rules, i);
    rules[i].answer =
        first < i ? rules[first].answer : answer_of(asked.scenario, &rules[i].rule.shape, searches);
  }
}

/// The fastest of what was simulated. A search gives only its own best layouts other settings, and
/// estimates decide what it simulates, so that the search for one rule's kind of layout can end
/// with a faster one than the search among all kinds.
Answer fastest(Answer best, const std::vector<RuleResult>& rules) {
  for (const RuleResult& r : rules) {
    if (!r.answer.found) continue;
    if (!best.found || r.answer.found->figures.step_time < best.found->figures.step_time) {
      best = r.answer;
    }
  }
  return best;
}

/// Notes how much slower than the best the rules' layouts are, and why.
void compare(std::vector<RuleResult>& rules, const Answer& best) {
  for (RuleResult& r : rules) {
    if (!r.answer.found || !best.found) continue;
    r.slower = r.answer.found->figures.step_time.v / best.found->figures.step_time.v - 1;
    if (r.slower > 0 && best.estimated && r.answer.estimated) {
      r.why = why_slower(*best.estimated, *r.answer.estimated);
    }
  }
}

std::string figures_text(const FoundLayout& found, const std::string& unit) {
  const LayoutFigures& f = found.figures;
  return fmt::format("{} {}/s, MFU {}, {} a step, {} of memory", count_text(f.throughput), unit,
                     percent_text(f.mfu), time_text(f.step_time), bytes_text(f.memory.needed));
}

std::string text_of(const Recommendation& asked, const Answer& best,
                    const std::vector<RuleResult>& rules, bool stopped, const Screen& screen) {
  const RuleQuestion& q = asked.question;
  const std::string unit = trained_on(asked.scenario);
  std::string text = wrapped(
      fmt::format("{:.4g} B parameters on {} x {:.4g} GB: {}, in {} with masters in float32\n\n",
                  q.parameters / 1e9, q.gpus, q.gpu_memory_gb, search_task(asked.scenario),
                  to_string(asked.scenario.training.param_dtype())),
      screen, 2);
  const auto line = [&](const std::string& name, const std::string& words) {
    text += wrapped(fmt::format("{:<20}{}\n", name, words), screen, 20);
  };
  line("simulated answer", best.found ? layout_name(best.found->scenario) : "nothing fits");
  line("", best.found ? figures_text(*best.found, unit) : best.failure);
  text += "\n";
  for (const RuleResult& r : rules) {
    line(r.rule.rule, r.rule.strategy.empty() ? "no answer" : r.rule.strategy);
    line("", r.rule.because);
    if (r.rule.strategy.empty()) continue;
    if (!r.answer.found) {
      line("", "does not fit: " + r.answer.failure);
      continue;
    }
    line("", "at best " + layout_name(r.answer.found->scenario));
    std::string words = figures_text(*r.answer.found, unit);
    if (r.slower > 0) words += fmt::format("; {} slower", percent_text(r.slower));
    if (!r.why.empty()) words += " (" + r.why + ")";
    line("", r.slower > 0 ? words : "which is the simulated answer");
  }
  text += wrapped(
      fmt::format("\nAnswers leave {} of memory free, which runs may take more than is simulated "
                  "(docs/validation.md).\n"
                  "Rules of thumb count 12 bytes per parameter and no activations.\n",
                  percent_text(1 - 1 / (1 + kMeasuredMemoryOver))),
      screen, 2);
  if (stopped) text += "Not every layout was looked at (--seconds).\n";
  return text;
}

Json json_of(const FoundLayout& found, const std::string& unit) {
  return {{"layout", layout_name(found.scenario)},
          {unit + "_per_s", found.figures.throughput},
          {"mfu", found.figures.mfu},
          {"step_time_s", found.figures.step_time.v},
          {"needed_memory_bytes", found.figures.memory.needed.v},
          {"scenario", print_scenario(found.scenario)}};
}

Json json_of(const Recommendation& asked, const Answer& best, const std::vector<RuleResult>& rules,
             bool stopped) {
  const std::string unit = trained_on(asked.scenario);
  Json json = {{"task", search_task(asked.scenario)},
               {"parameters", asked.question.parameters},
               {"gpus", asked.question.gpus},
               {"stopped", stopped},
               {"answer", best.found ? json_of(*best.found, unit) : Json(nullptr)}};
  if (!best.found) json["failure"] = best.failure;
  for (const RuleResult& r : rules) {
    Json rule = {{"rule", r.rule.rule},
                 {"strategy", r.rule.strategy},
                 {"because", r.rule.because},
                 {"simulated", r.answer.found ? json_of(*r.answer.found, unit) : Json(nullptr)}};
    if (r.answer.found) rule["slower"] = r.slower;
    if (!r.why.empty()) rule["why"] = r.why;
    if (!r.answer.failure.empty()) rule["failure"] = r.answer.failure;
    json["rules"].push_back(std::move(rule));
  }
  return json;
}

}  // namespace

int recommend_command(const RecommendArguments& arguments, const Console& console) {
  const Result<Recommendation> asked = recommendation_of(arguments);
  if (!asked) return report_error(console, asked.error());
  report_warnings(console, asked->warnings);
  std::vector<RuleResult> rules = rules_of(*asked);
  Searches searches{arguments.threads > 0
                        ? arguments.threads
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency())),
                    TimeShares(arguments.seconds, 1 + searches_of(rules)), console};
  const Answer any = answer_of(asked->scenario, nullptr, searches);
  search_rules(rules, *asked, searches);
  const Answer best = fastest(any, rules);
  compare(rules, best);
  console.out << (arguments.json
                      ? json_text(json_of(*asked, best, rules, searches.stopped))
                      : text_of(*asked, best, rules, searches.stopped, console.screen()));
  return 0;
}

}  // namespace lockstep
