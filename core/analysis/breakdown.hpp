// Breakdown: what each rank's step is made of, and which transfers no computation hides.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// A rank's step in disjoint parts that add up to the makespan: the Distributed View of PyTorch's
/// profiler plugin, and the temporal breakdown and overlap of Holistic Trace Analysis
/// (facebookresearch/HolisticTraceAnalysis).
///
/// A collective's kernel runs from the arrival of its rank on, so what these tools call
/// communication is communication + waiting here; kept apart as they do in data transfer and
/// synchronizing. communication alone is RankReport::exposed_comm.
struct RankBreakdown {
  SimTime computation{};    // computes, and no transfer runs
  SimTime overlapping{};    // both
  SimTime communication{};  // a transfer runs (active..end), nothing computes
  SimTime waiting{};        // neither, and a transfer waits for its peers (begin..active)
  SimTime other{};          // none of these
  SimTime transfers() const { return overlapping + communication; }
  /// HTA's overlap: the share of transfer time that computation hides. 0 without transfers.
  double overlap() const;
  bool operator==(const RankBreakdown&) const = default;
};

struct Breakdown {
  std::vector<RankBreakdown> ranks;  // every rank
  /// Exposed communication by op kind, over all ranks; adds up to the sum of `communication`. Where
  /// several transfers run at once, the one that began first has it.
  std::map<std::string, SimTime> exposed_by_kind;
};

/// n log n in the spans of a rank.
Breakdown break_down(const StepGraph& step);

}  // namespace lockstep
