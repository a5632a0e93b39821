// Breakdown: what each rank's step is made of, and which transfers no computation hides.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/analysis/rank_work.hpp"
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
  SimTime compute() const { return computation + overlapping; }
  SimTime transfers() const { return overlapping + communication; }
  SimTime idle() const { return waiting + other; }
  /// HTA's overlap: the share of transfer time that computation hides. 0 without transfers.
  double overlap() const;
  bool operator==(const RankBreakdown&) const = default;
};

/// Exposed communication of one kind of op. Where several transfers run at once, the time counts
/// for the one that began first.
struct ExposedKind {
  std::int32_t kind = 0;  // into Trace::names
  SimTime time{};
};

struct Breakdown {
  IndexVector<Rank, RankBreakdown> ranks;  // by rank
  IndexVector<Rank, SimTime> stage_spans;  // by rank: RankWork::stage_span
  /// Exposed communication by op kind, summed over all ranks, so that its total is the sum of
  /// `communication`.
  std::map<std::string, SimTime> exposed_by_kind;
};

/// Divides a rank's step into its parts, in linear time, and appends what is exposed by kind.
RankBreakdown break_down(const StepGraph& step, const RankWork& work,
                         std::vector<ExposedKind>& exposed_by_kind);
/// The same for every rank.
Breakdown break_down(const StepGraph& step);

}  // namespace lockstep
