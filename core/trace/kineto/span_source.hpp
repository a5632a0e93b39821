// Span sources: where in its file each span of a trace from elsewhere stands, so that its arguments
// are read when somebody asks for them instead of being kept for all spans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

struct SpanSources {
  std::vector<std::string> files;  // by rank
  bool nsight = false;             // they are exports of Nsight Systems
  /// By span: where its event begins in the text of its file, or which row of the export it is.
  std::vector<std::uint64_t> offsets;
  bool empty() const { return offsets.empty(); }
};

/// Names and values as the file has them: ("grid", "[256, 1, 1]"), ("Input Dims", …).
using SpanArguments = std::vector<std::pair<std::string, std::string>>;

/// Reads the arguments of a span, category (table) included, in the order of the file. A file that
/// is compressed is read from its begin. Errors: Parse if the file has changed since it was
/// imported; InvalidSpec if `sources` are empty.
Result<SpanArguments> read_arguments(const SpanSources& sources, const Trace& trace,
                                     std::size_t span);

}  // namespace lockstep
