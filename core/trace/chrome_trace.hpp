// Chrome trace JSON: what Perfetto and chrome://tracing open. Written so that it reads back whole.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// Writes `path`; gzip if it ends in ".gz". The file appears whole or not at all (temporary name,
/// then rename). Same trace, same bytes.
///
/// One process per rank (pid = rank, named by its label, sorted by rank), one thread per stream
/// (tid = stream + 1), one complete event per span, counters of memory by kind (kinds that the
/// trace never holds are left out), and flow events: send to receive, and a chain through the
/// members of each collective. Times are microseconds with six decimals, exactly the trace's
/// picoseconds. What the format has no place for is in the top-level object "lockstep".
///
/// Ranks that have no spans of their own (Trace::same_as) are drawn as copies in worlds of at most
/// kMaxDrawnCopies ranks; above that only the ranks that stand for them are in the file. Copies are
/// never read back.
///
/// Requires the order that Trace promises, and memory samples with one value per memory kind.
/// Errors: Device if the file cannot be written.
Result<void> write_chrome_trace(const Trace& trace, const std::string& path);

inline constexpr int kMaxDrawnCopies = 64;

/// The trace that write_chrome_trace wrote (equal to it), plain or gzip whatever the name says.
/// Errors: Parse, with the file and where it stops making sense.
Result<Trace> read_chrome_trace(const std::string& path);

}  // namespace lockstep
