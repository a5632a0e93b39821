// Traces from elsewhere: Kineto JSON, what PyTorch's profiler writes, as a Trace. docs/traces.md
// says what becomes of each kind of event.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

struct ImportOptions {
  const std::atomic<bool>* cancel = nullptr;      // set: the import ends with an error "cancelled"
  std::function<void(double fraction)> progress;  // 0 to 1, ascending; from the caller's thread
};

/// What the files hold and what had to be mended. No event is dropped without a count here.
struct ImportCounts {
  std::int64_t spans = 0;
  std::int64_t overlapping = 0;            // events moved to a lane beside their track
  std::int64_t unfinished = 0;             // begun and never ended: end with their track
  std::int64_t unbegun = 0;                // ends without a beginning: left out
  std::int64_t without_duration = 0;       // or with a negative one: taken as 0
  std::int64_t unmatched_collectives = 0;  // other ranks' do not fit: no channel
  std::int64_t unbound_flows = 0;          // one end has no event: left out
  std::int64_t not_spans = 0;              // instants, counters, …: a Trace has no place for them
  ImportCounts& operator+=(const ImportCounts& other);
  bool operator==(const ImportCounts&) const = default;
};

struct ImportedTrace {
  Trace trace;
  ImportCounts counts;
  std::vector<std::string> remarks;  // what a user should know: one sentence each
};

/// One file (.json or .json.gz) per rank, in any order. Ranks are those of distributedInfo, else of
/// the file names ("rank3", "rank-3"), else the order of the files; those that are absent are left
/// out, so that rank_labels tell the ranks of the job.
///
/// Clocks: baseTimeNanoseconds first, then the ends of collectives that several ranks took part in
/// (median difference to a rank that is already aligned); Trace::clock_uncertainty is the largest
/// median deviation from those medians. Without either, files begin together and a remark says so.
///
/// Errors: Parse, with file, line and column: not a trace, two files of one rank, cancelled.
Result<ImportedTrace> read_kineto(const std::vector<std::string>& files,
                                  const ImportOptions& options = {});

/// A trace file of ours, a Kineto file, or a folder of Kineto files (its .json and .json.gz; those
/// that hold no events are passed over with a remark). Errors: as read_kineto, read_chrome_trace.
Result<ImportedTrace> read_any_trace(const std::string& path, const ImportOptions& options = {});

}  // namespace lockstep
