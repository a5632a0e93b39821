#include "core/analysis/timeline_blocks.hpp"

#include <algorithm>
#include <cstdio>

#include "core/base/index_vector.hpp"
#include "core/base/phase.hpp"
#include "core/trace/op_class.hpp"

namespace lockstep {
namespace {

char letter_of(std::uint8_t phase) {
  switch (static_cast<Phase>(phase)) {
    case Phase::F:
      return 'F';
    case Phase::B:
      return 'B';
    case Phase::I:
      return 'I';
    case Phase::W:
      return 'W';
    case Phase::R:
      return 'R';
    case Phase::O:
      return 'O';
    case Phase::S:
      return 'S';
    case Phase::None:
      return '+';
  }
  return '?';
}

/// The stream that has most of a rank's compute time; in our own programs, Stream::Compute.
int compute_stream(const Trace& trace, const Spans::Run& run) {
  const TraceRole& role = trace.roles[trace.role_of_rank[run.rank]];
  std::vector<SimTime> time(trace.streams.size(), SimTime{});
  for (const Span& s : trace.spans.range(run)) {
    const TraceOp& op = role.ops[s.op];
    if (op_class(trace.names[op.kind]) == OpClass::Compute) time[op.stream] += s.end - s.begin;
  }
  return static_cast<int>(std::max_element(time.begin(), time.end()) - time.begin());
}

}  // namespace

FirstStep first_step(const Trace& trace) {
  FirstStep step{SimTime::max(), SimTime::min()};
  for (const Span& s : trace.spans.range(trace.spans.of_first_step())) {
    step.first = std::min(step.first, s.begin);
    step.last = std::max(step.last, s.end);
  }
  return step;
}

std::vector<TimelineBlock> timeline_blocks(const Trace& trace, const Spans::Run& run, SimTime gap) {
  const TraceRole& role = trace.roles[trace.role_of_rank[run.rank]];
  const int stream = compute_stream(trace, run);
  std::vector<TimelineBlock> blocks;
  for (const Span& s : trace.spans.range(run)) {
    const TraceOp& op = role.ops[s.op];
    if (op.stream != stream || s.end <= s.active) continue;
    const char letter = letter_of(op.phase);
    if (!blocks.empty()) {
      TimelineBlock& last = blocks.back();
      if (last.letter == letter && last.stage == op.stage && last.microbatch == op.microbatch &&
          s.active - last.end < gap) {
        last.end = s.end;
        continue;
      }
    }
    blocks.push_back({letter, op.stage, op.microbatch, s.active, s.end});
  }
  return blocks;
}

std::string timeline_time(SimTime t) {
  const double s = to_seconds(t).v;
  const struct {
    double scale;
    const char* unit;
  } units[] = {{1, "s"}, {1e3, "ms"}, {1e6, "us"}};
  const auto& u = units[s >= 1 ? 0 : s >= 1e-3 ? 1 : 2];
  char text[40];
  std::snprintf(text, sizeof text, "%.4g %s", s * u.scale, u.unit);
  return text;
}

std::string twins_remark(const Trace& trace) {
  std::size_t copies = 0;
  for (std::size_t r = 0; r < trace.same_as.size(); ++r) {
    copies += trace.same_as[r] != static_cast<Rank>(r) ? 1 : 0;
  }
  if (copies == 0) return "";
  return std::to_string(copies) + " more rank" + (copies == 1 ? " does" : "s do") +
         " exactly what one of these does\n";
}

}  // namespace lockstep
