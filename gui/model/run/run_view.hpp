// RunView: one run, simulated or real, as all views see it. It is made on another thread than the
// GUI's, is never changed afterwards, and is shared by pointer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/report.hpp"
#include "core/analysis/staleness.hpp"
#include "core/analysis/step_analysis.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/run_folder/metrics_tail.hpp"
#include "core/spec/scenario.hpp"
#include "core/trace/allocation.hpp"
#include "core/trace/kineto/span_source.hpp"
#include "core/trace/trace.hpp"
#include "gui/model/run/lanes.hpp"

namespace lockstep::gui {

using SpanId = StepAnalysis::SpanId;

struct RunView {
  std::string title;                       // "1f1b-p4-m8, simulated"
  std::string path;                        // file or folder it came from; may be empty
  std::optional<Scenario> scenario;        // empty for a trace from elsewhere
  std::shared_ptr<const Program> program;  // null for a trace from elsewhere; runs may share one
  std::optional<ClusterSpec> where;  // the cluster of a program that was run without a scenario
  std::optional<Report> report;      // empty for a trace from elsewhere
  Trace trace;                       // a simulation's has no samples of memory: see memory()
  Lanes lanes;
  std::vector<StepAnalysis> steps;  // in time order
  /// By role and op, if weights change within a step (PipeDream); otherwise empty.
  IndexVector<std::int32_t, IndexVector<OpId, WeightsRead>> weights;
  std::vector<SimTime> self;         // by span, what self_times() returned
  SpanSources sources;               // where a trace from elsewhere has its spans' arguments
  Allocations allocations;           // the single blocks of a memory snapshot
  std::vector<StepMetrics> metrics;  // of all steps trained, if a run folder has them
  std::vector<std::string> notes;    // what the user should know, such as an [expect] that failed
  /// What is too little, if it was simulated although it does not fit (see check_capacity()).
  std::optional<Error> too_large;

  RunView() = default;
  RunView(const RunView&) = delete;  // because lanes point into the trace
  RunView& operator=(const RunView&) = delete;
  bool simulated() const { return trace.backend == "sim"; }
  /// Whether another program's profiler wrote the trace.
  bool from_elsewhere() const { return trace.program_hash.empty() && trace.backend != "sim"; }
  const StepAnalysis* step_of(SpanId span) const;
  WeightsRead weights_of(const Span& span) const;
  /// The cluster that it ran on; null for a trace from elsewhere.
  const ClusterSpec* cluster() const {
    return scenario ? &scenario->cluster : where ? &*where : nullptr;
  }
  /// The samples of the trace, or those that a simulation's program and spans give, which are made
  /// when they are first asked for: of a thousand ranks that takes longer than the simulation.
  const std::vector<MemorySample>& memory() const;
  int world_size() const { return static_cast<int>(trace.role_of_rank.size()); }

 private:
  mutable std::once_flag sampled_;
  mutable std::vector<MemorySample> memory_;
};
using RunPtr = std::shared_ptr<const RunView>;

using Cancelled = std::atomic<bool>;  // set by another thread that no longer wants the result
/// All faults of a scenario, or the run. It has neither if it was cancelled.
struct Outcome {
  RunPtr run;
  std::vector<Error> errors;
};

/// Simulates a scenario's text, or the first point of a sweep, whether it fits into its devices or
/// not (see RunView::too_large). `file` names the text in errors.
/// `before` is an earlier run, or null. Its program is reused if the scenarios differ only in what
/// lowering does not read ([what_if], [expect]); the result is the same, and ready sooner.
Outcome simulate(const std::string& text, const std::string& file,
                 const std::vector<std::string>& overrides, const Cancelled& cancelled,
                 const RunView* before = nullptr);

/// Loads a run folder, a trace of Lockstep or of PyTorch's profiler, or a folder of such traces,
/// one per rank; or verifies and simulates a program's text, on CPUs as `lockstep run` does.
/// `progress` is called on the caller's thread with a number from 0 to 1. Errors are
/// those of open_run().
Outcome load(const std::string& path, const Cancelled& cancelled,
             const std::function<void(double)>& progress = {});

/// Makes a run of a trace and of what is known about it, and indexes its lanes.
RunPtr make_run(std::string title, Trace trace, std::optional<Scenario> scenario = {},
                std::optional<Program> program = {}, std::optional<Report> report = {});

/// What Session::open() takes a path for, by its name and by whether it is a folder.
enum class FileKind { Scenario, Folder, Trace, Program };
FileKind kind_of_path(const std::string& path);

/// A coordinate of a rank in the mesh, as its label says: "rank 3 (pp1 dp_shard0)".
struct Coordinate {
  std::string dimension;
  int at = 0;
  bool operator==(const Coordinate&) const = default;
};
std::vector<Coordinate> coordinates(const std::string& rank_label);
/// The coordinate along `dimension`; -1 if the label does not name it.
int coordinate(const std::string& rank_label, const std::string& dimension);

}  // namespace lockstep::gui
