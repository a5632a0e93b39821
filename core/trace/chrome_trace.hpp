// Chrome trace JSON, which Perfetto and chrome://tracing open. What is written can be read back
// without loss.
#pragma once

#include <string>

#include "core/base/new_file.hpp"
#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// Writes `path`, compressed with gzip if it ends in ".gz". The file appears whole or not at all
/// (temporary name, then rename). The same trace gives the same bytes.
///
/// One process per rank (pid = rank, named by its label, sorted by rank), one thread per stream
/// (tid = stream + 1), one complete event per span, counters of memory by kind (kinds that the
/// trace never holds are left out), and flow events: send to receive, and a chain through the
/// members of each collective. Times are microseconds with six decimals, exactly the trace's
/// picoseconds. What the format has no place for is in the top-level object "lockstep".
///
/// Ranks that have no spans of their own (Trace::same_as) are drawn as copies of those that stand
/// for them, if there are at most kMaxDrawnCopies ranks in all; otherwise they are left out. Copies
/// are ignored when the file is read back.
///
/// Requires the order that Trace promises, and memory samples with one value per memory kind.
/// Errors: Device if the file cannot be written.
Result<void> write_chrome_trace(const Trace& trace, const std::string& path,
                                Links links = Links::Followed);

inline constexpr int kMaxDrawnCopies = 64;

/// Reads a file that write_chrome_trace wrote; the result equals the trace that was written. The
/// content, not the name, tells whether it is compressed. Errors: Parse, with the file and what in
/// it makes no sense.
Result<Trace> read_chrome_trace(const std::string& path);

}  // namespace lockstep
