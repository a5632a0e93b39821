// RunView: one run, simulated or real, as every view sees it. Made off the GUI thread, never
// changed afterwards, shared by pointer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/bubbles.hpp"
#include "core/analysis/critical_path.hpp"
#include "core/analysis/report.hpp"
#include "core/analysis/staleness.hpp"
#include "core/analysis/step_graph.hpp"
#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/run_folder/metrics_tail.hpp"
#include "core/spec/scenario.hpp"
#include "core/trace/trace.hpp"
#include "gui/model/run/lanes.hpp"

namespace lockstep::gui {

/// Index into Trace::spans; not to be mixed up with StepGraph's, which counts within a step.
using SpanId = std::size_t;

/// What a traced step's analyses say.
struct StepView {
  SpanId first_span = 0;  // of the step
  StepGraph graph;
  Bubbles bubbles;
  std::vector<PathSegment> path;  // critical
  SpanId id(SpanIndex i) const { return first_span + static_cast<SpanId>(i); }
  SpanIndex index(SpanId id) const { return static_cast<SpanIndex>(id - first_span); }
};

struct RunView {
  std::string title;                 // "1f1b-p4-m8, simulated"
  std::string path;                  // file or folder it came from; may be empty
  std::optional<Scenario> scenario;  // absent: a trace from elsewhere
  std::optional<Program> program;    // absent: likewise
  std::optional<Report> report;      // absent: likewise
  Trace trace;
  Lanes lanes;
  std::vector<StepView> steps;  // in time order
  /// By role and op, where weights change within a step (PipeDream); else empty.
  std::vector<std::vector<WeightsRead>> weights;
  std::vector<StepMetrics> metrics;  // of all steps trained, where a run folder has them
  std::vector<std::string> notes;    // what the user should know: an [expect] that failed, …

  RunView() = default;
  RunView(const RunView&) = delete;  // lanes point into the trace
  RunView& operator=(const RunView&) = delete;
  bool simulated() const { return trace.backend == "sim"; }
  const StepView* step_of(SpanId span) const;
  WeightsRead weights_of(const Span& span) const;
  int world_size() const { return static_cast<int>(trace.role_of_rank.size()); }
};
using RunPtr = std::shared_ptr<const RunView>;

using Cancelled = std::atomic<bool>;  // set from another thread: the result is no longer wanted

/// All faults of a scenario, or the run. No fault and no run: it was cancelled.
struct Outcome {
  RunPtr run;
  std::vector<Error> errors;
};

/// A scenario text is simulated; of a sweep, its first point. `file` names the text in errors.
/// `before`: an earlier run, or null; its program is taken over where the scenarios differ only in
/// what lowering does not look at ([what_if], [expect]). The result is the same, and there sooner.
Outcome simulate(const std::string& text, const std::string& file,
                 const std::vector<std::string>& overrides, const Cancelled& cancelled,
                 const RunView* before = nullptr);

/// A run folder, a trace of ours or of PyTorch's profiler, or a folder of such traces, one per
/// rank. `progress`, from 0 to 1, is called on the caller's thread. Errors: as open_run.
Outcome load(const std::string& path, const Cancelled& cancelled,
             const std::function<void(double)>& progress = {});

/// The run of a trace and of what is known about it; indexes the lanes.
RunPtr make_run(std::string title, Trace trace, std::optional<Scenario> scenario = {},
                std::optional<Program> program = {}, std::optional<Report> report = {});

/// What a path holds, by its name and kind: what open does with it.
enum class FileKind { Scenario, Folder, Trace };
FileKind kind_of_path(const std::string& path);

/// Where a rank stands in the mesh, as its label says: "rank 3 (pp1 dp_shard0)".
struct Coordinate {
  std::string dimension;
  int at = 0;
  bool operator==(const Coordinate&) const = default;
};
std::vector<Coordinate> coordinates(const std::string& rank_label);
/// Along `dimension`; -1 where the label does not name it.
int coordinate(const std::string& rank_label, const std::string& dimension);

}  // namespace lockstep::gui
