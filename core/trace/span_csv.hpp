// Spans as CSV, for spreadsheets and scripts: a heading, then a line of plain numbers for each
// span.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// Writes the columns step, rank, stream, operation, kind, stage, microbatch, layer, begin_us,
/// active_us, end_us (exact) and bytes; what an op does not have is empty. Spans are in the trace's
/// order. A rank for which another one stands (Trace::same_as) has no lines of its own. The file is
/// compressed if `path` ends in ".gz", and appears whole or not at all. Errors: Device if it cannot
/// be written.
Result<void> write_span_csv(const Trace& trace, const std::string& path);

}  // namespace lockstep
