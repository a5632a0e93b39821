// Analyses of single ranks, side by side: each looks at a rank while the caches have its spans.
#pragma once

#include "core/analysis/breakdown.hpp"
#include "core/analysis/bubbles.hpp"
#include "core/analysis/step_graph.hpp"

namespace lockstep {

struct RankAnalyses {
  Breakdown breakdown;
  Bubbles bubbles;
};

/// Analyses each rank with spans of its own once; those that it stands for take its figures.
/// Without `list`, the bubbles are summed alone. Ranks are done beside each other.
RankAnalyses analyze_ranks(const StepGraph& step, bool list);

}  // namespace lockstep
