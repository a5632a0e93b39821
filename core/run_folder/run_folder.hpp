// Run folders: what `lockstep run --out` leaves behind and `compare` reads.
//
//   scenario.toml     resolved, every key written out; not of a run of a program's text
//   program.txt       what every rank did
//   trace.json.gz     Chrome/Perfetto
//   metrics.jsonl     one line per step, written as it happens
//   report.json
//   checkpoints/      if [checkpoint] interval is set (or the folder named there)
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "core/analysis/report.hpp"
#include "core/base/result.hpp"
#include "core/trace/kineto/kineto.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// Creates `directory`, or takes one that is empty or a run folder. Error InvalidSpec: it holds
/// anything else, or (not `resuming`) another run's checkpoints, which a new run must not mix with.
Result<void> prepare_run_folder(const std::string& directory, const std::string& checkpoint_folder,
                                bool resuming);

/// The file appears whole or not at all. Error Device.
Result<void> write_file(const std::string& path, const std::string& text);
Result<std::string> read_file(const std::string& path);  // Error InvalidSpec

struct Run {
  Report report;
  Trace trace;
  std::vector<std::string> remarks;  // of a trace from elsewhere: ImportedTrace's
};
Result<Run> read_run(const std::string& directory);

/// What there is to look at: a run folder, a trace file of ours or Kineto's, or a folder of Kineto
/// files, one per rank. The report of a mere trace has what its spans tell. Errors: as read_run and
/// read_any_trace.
Result<Run> open_run(const std::string& path, const ImportOptions& options = {});

/// The checkpoint folder that `--resume DIRECTORY` means: a checkpoint, a folder of checkpoints, or
/// those of a run folder. Error InvalidSpec.
Result<std::string> find_checkpoints(const std::string& directory,
                                     const std::string& checkpoint_folder);

/// metrics.jsonl. Steps count from 1, as in checkpoint names and on the screen; names are
/// torchtitan's.
class MetricsLog {
 public:
  /// Keeps the lines of `path` for steps up to `first_step` (0-based: the first to be logged).
  static Result<MetricsLog> open(const std::string& path, int first_step);
  void append(const StepResult& step, std::int64_t tokens_per_step);

 private:
  std::ofstream file_;
};

}  // namespace lockstep
