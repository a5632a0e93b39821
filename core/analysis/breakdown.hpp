// Breakdown: what each rank's step is made of, and which transfers no computation hides.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/analysis/step_graph.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {

/// A rank's step in disjoint parts that add up to the makespan: the Distributed View of PyTorch's
/// profiler plugin, and the temporal breakdown and overlap of Holistic Trace Analysis
/// (facebookresearch/HolisticTraceAnalysis).
///
/// A collective's kernel runs from the arrival of its rank on, so what these tools call
/// communication is communication + waiting here. We keep the two apart, as they do with data
/// transfer and synchronizing. `communication` alone is RankReport::exposed_comm.
struct RankBreakdown {
  SimTime computation{};    // the rank computes, and no transfer runs
  SimTime overlapping{};    // it computes while a transfer runs
  SimTime communication{};  // a transfer runs (active..end), and nothing computes
  SimTime waiting{};        // neither runs, but a transfer waits for its peers (begin..active)
  SimTime other{};          // none of these
  SimTime transfers() const { return overlapping + communication; }
  /// HTA's overlap: the share of transfer time that computation hides. 0 without transfers.
  double overlap() const;
  bool operator==(const RankBreakdown&) const = default;
};

struct Breakdown {
  IndexVector<Rank, RankBreakdown> ranks;  // by rank
  /// Exposed communication by op kind, summed over all ranks, so that its total is the sum of
  /// `communication`. Where several transfers run at once, the time counts for the one that began
  /// first.
  std::map<std::string, SimTime> exposed_by_kind;
};

/// Divides each rank's step into its parts. Takes n log n time in the spans of a rank.
Breakdown break_down(const StepGraph& step);

}  // namespace lockstep
