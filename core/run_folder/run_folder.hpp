// Run folders: what `lockstep run --out` leaves behind and `compare` reads.
// scenario.toml     resolved, every key written out; missing if a program's text was run
//   program.txt       what every rank did
// trace.json.gz     the spans, in the format of Chrome and Perfetto
//   metrics.jsonl     one line per step, written as it happens
//   report.json
//   checkpoints/      if [checkpoint] interval is set (or the folder named there)
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/report.hpp"
#include "core/base/new_file.hpp"
#include "core/base/result.hpp"
#include "core/run_folder/event_log.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// Creates `directory`, or takes one that is empty or a run folder. Error InvalidSpec if it holds
/// anything else, a link where a run makes a folder, or, unless `resuming`, the checkpoints of
/// another run, with which those of a new run must not mix. What a run left behind that never
/// finished a checkpoint is no checkpoint.
Result<void> prepare_run_folder(const std::string& directory, const std::string& checkpoint_folder,
                                bool resuming);

struct Run {
  Report report;
  Trace trace;
  std::vector<std::string> remarks;  // those of ImportedTrace, for a trace from elsewhere
  SpanSources sources;               // likewise
  Allocations allocations = {};      // likewise
};
Result<Run> read_run(const std::string& directory);

/// Opens whatever can be looked at: a run folder, a trace file of Lockstep or Kineto, or a folder
/// of Kineto files, one per rank. The report of a trace without a run folder says what its spans
/// tell. Errors are those of read_run and read_any_trace.
Result<Run> open_run(const std::string& path, const ImportOptions& options = {});

/// The folder that `--resume DIRECTORY` means: DIRECTORY itself if it is a checkpoint or a folder
/// of checkpoints, or the checkpoints of the run folder DIRECTORY. Error InvalidSpec if there are
/// none.
Result<std::string> find_checkpoints(const std::string& directory,
                                     const std::string& checkpoint_folder);

/// What a step took beside computing and transfers, and what was seen after it.
struct StepLosses {
  Seconds saving = {};                // of the training's time; 0: no checkpoint was saved after it
  Seconds waiting = {};               // of ranks for each other, mean over them
  std::optional<int> straggler = {};  // the rank for which the others wait
  Seconds loading = {};               // of samples, by the host of the slowest rank
  std::optional<double> validation = {};  // the loss of data that are not trained on
};

/// Writes metrics.jsonl. Steps count from 1, as in checkpoint names and on the screen; the names of
/// the values are torchtitan's.
class MetricsLog {
 public:
  /// Opens `path` and keeps its lines for the steps before `first_step`, the first step (0-based)
  /// that will be logged.
  /// `events`, if given, is a folder that gets the same values for TensorBoard.
  static Result<MetricsLog> open(const std::string& path, int first_step,
                                 const std::string& events = {});
  /// Writes a line whole or not at all. A step that comes again takes away the lines from it on.
  /// Error Device, for example if the disk is full; later lines may be written again.
  Result<void> append(const StepResult& step, std::int64_t tokens_per_step,
                      const StepLosses& losses = {});

 private:
  std::string path_;
  std::ofstream file_;
  std::optional<EventLog> events_;
  std::int64_t whole_ = 0;  // bytes of the lines that were written whole
  int last_ = 0;            // the step of the last of them
};

}  // namespace lockstep
