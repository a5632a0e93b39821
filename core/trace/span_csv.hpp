// Spans as CSV: for spreadsheets and scripts. Plain numbers, a heading, a line per span.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// Columns: step, rank, stream, operation, kind, stage, microbatch, layer, begin_us, active_us,
/// end_us (exact), bytes; what an op does not have is empty. Spans in the trace's order; those of a
/// rank that another stands for (Trace::same_as) are the other's. `path` ending in .gz: compressed.
/// The file appears whole or not at all. Error Device.
Result<void> write_span_csv(const Trace& trace, const std::string& path);

}  // namespace lockstep
