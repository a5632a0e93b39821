// Recommend: the fastest layout of a model on a cluster, and beside it what the rules of thumb say,
// each with the best layout of its kind and why that one is slower; and what would fit where
// nothing does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/advice/question.hpp"
#include "core/plan/best_first.hpp"

namespace lockstep {

/// The best layout of a kind that leaves as much memory free as runs take more than is simulated.
struct BestLayout {
  std::optional<FoundLayout> found;  // as it was simulated in full
  std::optional<EstimatedLayout> estimated;
  std::optional<Error> failure;  // if there is none
};

struct RuleAdvice {
  RuleAnswer rule;
  BestLayout best = {};  // without anything if the rule has no answer
  double slower = 0;     // than the fastest of all, as a part of its time
  std::string why = {};  // empty: it is not slower, or there are no estimates to compare
};

/// The same question with another option of `lockstep recommend`, with which something fits. The
/// layout is that of a search without other settings, which asking with the option tries, too.
struct WayToFit {
  std::string option;  // "--nodes 16"
  std::string words;   // "16 nodes instead of 8"
  FoundLayout found;
};

struct Advice {
  Recommendation asked;
  BestLayout best;
  std::vector<RuleAdvice> rules;
  std::vector<WayToFit> ways;  // if nothing fits: states on the host, adapters, more nodes
  bool stopped = false;        // not everything was looked at, because the time was over
};

struct AdviceOptions {
  double seconds = 60;              // after this time no further layouts are tried
  int threads = 0;                  // 0: one for each core
  std::function<bool()> cancelled;  // ends all searches when it returns true; empty: never
};

/// Answers with what `oracle` and `prober` say of layouts. Errors: those of the question.
Result<Advice> recommend(const RecommendQuestion& question, const LayoutOracle& oracle,
                         const Prober& prober, const AdviceOptions& options);

}  // namespace lockstep
