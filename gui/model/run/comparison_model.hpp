// ComparisonModel: two runs side by side, as rows that can be sorted, and that point to places in
// the runs.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/analysis/compare.hpp"
#include "gui/model/run/summary_model.hpp"

namespace lockstep::gui {

/// Where a row points in one run.
struct Place {
  Selection selection;
  std::optional<SimTime> cursor;  // given if the selection alone does not say where to look
  bool operator==(const Place&) const = default;
};

struct DifferenceRow {
  std::string name;
  double a = 0, b = 0;                      // seconds or bytes
  std::int64_t count_a = -1, count_b = -1;  // spans of a step; -1 if they are not counted
  std::optional<Place> place_a, place_b;    // empty if the run has no such thing
};

struct DifferenceTable {
  std::string title, column;        // "Kinds", "Kind"
  bool bytes = false;               // the values are bytes, otherwise seconds
  std::vector<DifferenceRow> rows;  // largest difference first; causes and steps in their order
};

struct ComparisonModel {
  RunPtr a, b;
  Seconds step_a, step_b;
  StepCauses parts_a{}, parts_b{};  // each adds up to its step
  std::string conclusion;           // "B is 57 ms shorter (-12.0 %): 41 ms less warm-up and …"
  std::string verdict;              // "the same program; the same order of operations; …"
  /// Causes, kinds, operations, streams, ranks, memory, steps. Of traces from elsewhere the
  /// operations are called kernels, and stand behind the causes.
  std::vector<DifferenceTable> tables;
  /// How many steps of the two runs stand beside each other: the i-th of A and the i-th of B.
  std::size_t steps() const { return std::min(a->steps.size(), b->steps.size()); }
};
using ComparisonPtr = std::shared_ptr<const ComparisonModel>;

/// Completes a choice of two runs; `a` or `b` is null where the user has not chosen. Preferred are
/// a simulation and a real run of its program, if both are open; else a simulation and a trace from
/// elsewhere; else a run of the same program, the run that is shown, or any other. Both are null if
/// there are not two runs.
std::pair<RunPtr, RunPtr> runs_to_compare(const std::vector<RunPtr>& runs, const RunPtr& shown,
                                          RunPtr a, RunPtr b);

/// Takes n log n for n spans, so it must not run on the GUI thread.
ComparisonPtr make_comparison(const RunPtr& a, const RunPtr& b);

/// The content of one of the model's tables. The content keeps the model alive.
TableContent difference_content(const ComparisonPtr& model, std::size_t table);

}  // namespace lockstep::gui
