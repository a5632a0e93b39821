#include "core/trace/span_csv.hpp"

#include <vector>

#include "core/base/index_vector.hpp"
#include "core/trace/gzip_file.hpp"

namespace lockstep {
namespace {

/// `text` as a CSV cell, quoted where RFC 4180 requires it.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::vector<std::string> cells(const std::vector<std::string>& texts) {
  std::vector<std::string> result;
  for (const std::string& text : texts) result.push_back(cell(text));
  return result;
}

}  // namespace

Result<void> write_span_csv(const Trace& trace, const std::string& path) {
  GzipWriter out(path, path.ends_with(".gz"));
  const IndexVector<std::int32_t, std::string> names = cells(trace.names),
                                               streams = cells(trace.streams);
  const auto number = [&](std::int64_t value) {
    if (value >= 0) out.integer(value);
    out.text(",");
  };
  out.text(
      "step,rank,stream,operation,kind,stage,microbatch,layer,begin_us,active_us,end_us,bytes\n");
  for (const Span& s : trace.spans) {
    const TraceOp& op = trace.roles[trace.role_of_rank[s.rank]].ops[s.op];
    number(s.step);
    number(s.rank);
    out.text(streams[op.stream]).text(",");
    out.text(names[op.name]).text(",");
    out.text(names[op.kind]).text(",");
    number(op.stage);
    number(op.microbatch);
    number(op.layer);
    for (const SimTime t : {s.begin, s.active, s.end}) out.microseconds(t.count()).text(",");
    if (op.bytes > 0) out.integer(op.bytes);
    out.text("\n");
  }
  return out.commit();
}

}  // namespace lockstep
