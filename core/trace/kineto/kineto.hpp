// Traces from elsewhere: reads Kineto JSON, which PyTorch's profiler writes, and other formats as a
// Trace.
// docs/traces.md says what becomes of each kind of event.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/allocation.hpp"
#include "core/trace/kineto/span_source.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

struct ImportOptions {
  const std::atomic<bool>* cancel =
      nullptr;  // if it becomes true, the import ends with the error "cancelled"
  std::function<void(double fraction)>
      progress;  // 0 to 1, ascending; called from the caller's thread
};

/// What the files contain and what had to be mended. No event is dropped without being counted
/// here.
struct ImportCounts {
  std::int64_t spans = 0;
  std::int64_t overlapping = 0;            // events moved to a lane beside their track
  std::int64_t unfinished = 0;             // begun but never ended: they end with their track
  std::int64_t unbegun = 0;                // ended but never begun: left out
  std::int64_t without_duration = 0;       // without a duration, or with a negative one: taken as 0
  std::int64_t unmatched_collectives = 0;  // they do not fit those of other ranks: no channel
  std::int64_t unbound_flows = 0;          // one end has no event: left out
  std::int64_t not_spans = 0;  // instants, counters, …, for which a Trace has no place
  std::int64_t graphs = 0;     // launches of CUDA graphs whose kernels are not told
  ImportCounts& operator+=(const ImportCounts& other);
  bool operator==(const ImportCounts&) const = default;
};

struct ImportedTrace {
  Trace trace;
  ImportCounts counts;
  std::vector<std::string> remarks;  // what a user should know, one sentence each
  SpanSources sources;               // empty for a format that has no text
  Allocations allocations;           // of a memory snapshot; empty for other formats
};

/// Reads one file (.json or .json.gz) per rank, in any order. A file's rank is taken from
/// distributedInfo, else from its name ("rank3", "rank-3"); if any file has neither, ranks are
/// counted in the order of the files. Ranks of the job without a file are left out of the trace, so
/// that rank_labels tell which ranks of the job it has.
///
/// Clocks are aligned by baseTimeNanoseconds first, then by the ends of collectives in which
/// several ranks took part (the median difference to a rank that is already aligned).
/// Trace::clock_uncertainty is the largest median deviation from those medians. Without either,
/// files are taken to begin together, and a remark says so.
///
/// Errors: Parse, with file, line and column: not a trace, two files of one rank, cancelled.
Result<ImportedTrace> read_kineto(const std::vector<std::string>& files,
                                  const ImportOptions& options = {});

/// Reads a trace file of ours, a Kineto file, a SQLite export of Nsight Systems (nsight.hpp), a
/// memory snapshot of PyTorch (memory_snapshot.hpp), which the content tells apart, Chakra's files
/// NAME.RANK.et (by one of them, by NAME or by their folder), a folder of
/// Kineto files (its .json and .json.gz; those without events are skipped with a remark), or one
/// without such files of exports of Nsight Systems (its .sqlite), whose processes are the ranks.
/// Ranks that no file tells are counted in the order of the files, numbers in names as numbers.
/// Errors are those of the readers.
Result<ImportedTrace> read_any_trace(const std::string& path, const ImportOptions& options = {});

}  // namespace lockstep
