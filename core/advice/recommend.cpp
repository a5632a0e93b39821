#include "core/advice/recommend.hpp"

#include <algorithm>
#include <chrono>

#include "core/advice/time_shares.hpp"
#include "core/base/thread_team.hpp"
#include "core/format/format.hpp"
#include "core/plan/explain.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostTimes = 64;  // as many nodes are tried where nothing fits
constexpr int kUsualRank = 16;  // of the adapters that are tried there

/// What all searches for an advice share.
struct Searches {
  const LayoutOracle& oracle;
  const Prober& prober;
  const AdviceOptions& asked;
  TimeShares time;
  bool offload = false;
  bool settings = true;  // SpaceOptions::settings
  Clock::time_point start = Clock::now();
  bool stopped = false;  // whether one of them ended before it had looked at everything

  double now() const { return std::chrono::duration<double>(Clock::now() - start).count(); }

  Result<SpaceResult> run(const Scenario& scenario, const StrategyShape* shape, double margin) {
    SpaceOptions options;
    options.threads = threads_or_cores(asked.threads);
    options.stop = [this] { return time.is_over(now()) || (asked.cancelled && asked.cancelled()); };
    options.constraints.offload = offload;
    options.settings = settings;
    if (shape) {
      options.constraints.wanted = [shape](const LayoutPoint& p) { return shape->has(p); };
    }
    const Bytes memory = memory_per_rank(scenario.cluster, ranks_to_divide(scenario));
    options.most_memory =
        Bytes{static_cast<std::int64_t>(static_cast<double>(memory.v) / (1 + margin))};
    Result<SpaceResult> result = search_space(scenario, oracle, prober, options);
    stopped = stopped || (result ? result->stopped : options.stop());
    return result;
  }
};

/// The best layout of that shape, or of any.
BestLayout best_layout(const Scenario& scenario, const StrategyShape* shape, Searches& searches) {
  searches.time.begin_task(searches.now());
  const Result<SpaceResult> result = searches.run(scenario, shape, kMeasuredMemoryOver);
  BestLayout best;
  if (!result) {
    best.failure = result.error();
    return best;
  }
  best.found = result->found.front();
  for (const EstimatedLayout& e : result->estimated) {
    if (e.point == best.found->point) best.estimated = e;
  }
  return best;
}

/// How near the best comes that fits, but leaves too little free; nullopt if none fits at all.
std::optional<std::string> nearest_miss(const Scenario& scenario, Searches& searches) {
  const Result<SpaceResult> tight = searches.run(scenario, nullptr, 0);
  if (!tight) return std::nullopt;
  const FoundLayout& found = tight->found.front();
  return "none leaves " + percent_text(1 - 1 / (1 + kMeasuredMemoryOver)) +
         " of memory free, which runs may take more than is simulated (docs/validation.md); "
         "nearest is " +
         layout_name(found.scenario) + ", which needs " + bytes_text(found.figures.memory.needed) +
         " of " + bytes_text(memory_per_rank(scenario.cluster, ranks_to_divide(scenario)));
}

/// The first rule with an answer that means the same kind of layout; such rules share one search.
std::size_t first_alike(const std::vector<RuleAdvice>& rules, std::size_t i) {
  const auto alike = [&](const RuleAdvice& other) {
    return !other.rule.strategy.empty() && other.rule.shape == rules[i].rule.shape;
  };
  return static_cast<std::size_t>(std::find_if(rules.begin(), rules.end(), alike) - rules.begin());
}

/// How many searches the rules are.
std::size_t searches_of(const std::vector<RuleAdvice>& rules) {
  std::size_t searches = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) searches += first_alike(rules, i) == i;
  return searches;
}

void search_rules(std::vector<RuleAdvice>& rules, const Scenario& scenario, Searches& searches) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].rule.strategy.empty()) continue;
    const std::size_t first = first_alike(rules, i);
    rules[i].best =
        first < i ? rules[first].best : best_layout(scenario, &rules[i].rule.shape, searches);
  }
}

/// The fastest of what was simulated. A search gives only its own best layouts other settings, and
/// estimates decide what it simulates, so that the search for one rule's kind of layout can end
/// with a faster one than the search among all kinds.
BestLayout fastest(BestLayout best, const std::vector<RuleAdvice>& rules) {
  for (const RuleAdvice& r : rules) {
    if (!r.best.found) continue;
    if (!best.found || r.best.found->figures.step_time < best.found->figures.step_time) {
      best = r.best;
    }
  }
  return best;
}

/// Notes how much slower than the best the rules' layouts are, and why.
void compare(std::vector<RuleAdvice>& rules, const BestLayout& best) {
  for (RuleAdvice& r : rules) {
    if (!r.best.found || !best.found) continue;
    r.slower = r.best.found->figures.step_time.v / best.found->figures.step_time.v - 1;
    if (r.slower > 0 && best.estimated && r.best.estimated) {
      r.why = why_slower(*best.estimated, *r.best.estimated);
    }
  }
}

/// Appends the way if something fits with `question`; returns whether it does.
bool try_way(const RecommendQuestion& question, std::string option, std::string words,
             Searches& searches, std::vector<WayToFit>& ways) {
  const Result<Recommendation> changed = recommendation_of(question);
  if (!changed) return false;  // such as adapters in a vision model
  searches.offload = question.offload;
  BestLayout best = best_layout(changed->scenario, nullptr, searches);
  if (!best.found) return false;
  ways.push_back({std::move(option), std::move(words), std::move(*best.found)});
  return true;
}

/// Each of them is tried alone; adapters with states on the host only where neither suffices; and
/// twice as many nodes, or GPUs, until something fits.
std::vector<WayToFit> ways_to_fit(const RecommendQuestion& question, Searches& searches) {
  std::vector<WayToFit> ways;
  searches.settings = false;  // so that this takes no longer than an answer
  const std::string rank = std::to_string(kUsualRank), adapters = "--lora " + rank;
  const std::string train = "training adapters of rank " + rank + " alone";
  RecommendQuestion host = question, lora = question, both = question;
  host.offload = both.offload = true;
  lora.lora = both.lora = kUsualRank;
  if (!question.offload) {
    try_way(host, "--offload", "states in host memory", searches, ways);
  }
  if (question.lora == 0) try_way(lora, adapters, train, searches, ways);
  if (ways.empty() && !question.offload && question.lora == 0) {
    try_way(both, adapters + " --offload", train + ", with their states in host memory", searches,
            ways);
  }
  RecommendQuestion more = question;
  const bool by_name = !question.model.empty();
  int& count = by_name ? more.nodes : more.gpus;
  const int asked = count;
  while (count <= asked * kMostTimes / 2 && !searches.stopped) {
    count *= 2;
    const std::string number = std::to_string(count);
    const std::string words = number + (by_name ? " nodes" : " GPUs") + " instead of ";
    if (try_way(more, (by_name ? "--nodes " : "--gpus ") + number, words + std::to_string(asked),
                searches, ways)) {
      break;
    }
  }
  return ways;
}

}  // namespace

Result<Advice> recommend(const RecommendQuestion& question, const LayoutOracle& oracle,
                         const Prober& prober, const AdviceOptions& options) {
  Result<Recommendation> asked = recommendation_of(question);
  if (!asked) return asked.error();
  Advice advice;
  advice.asked = std::move(*asked);
  const Scenario& scenario = advice.asked.scenario;
  for (RuleAnswer& rule : rules_of_thumb(advice.asked.question)) {
    advice.rules.push_back({std::move(rule)});
  }
  Searches searches{oracle, prober, options,
                    TimeShares(options.seconds, 1 + searches_of(advice.rules)), question.offload};
  const BestLayout any = best_layout(scenario, nullptr, searches);
  search_rules(advice.rules, scenario, searches);
  advice.best = fastest(any, advice.rules);
  compare(advice.rules, advice.best);
  std::optional<Error>& failure = advice.best.failure;
  if (failure && failure->kind == ErrorKind::OutOfMemory && !searches.stopped) {
    if (const auto near = nearest_miss(scenario, searches)) failure->message = *near;
    advice.ways = ways_to_fit(question, searches);
  }
  advice.stopped = searches.stopped;
  return advice;
}

}  // namespace lockstep
