// Timeline blocks: what a rank's compute stream does in a step, for those who draw it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"

namespace lockstep {

using SpanIterator = std::vector<Span>::const_iterator;

/// Consecutive compute ops of one phase, stage and microbatch, drawn as one.
struct TimelineBlock {
  char letter;  // F, B, I, W, R, O as in Phase; + other compute
  std::int32_t stage, microbatch;
  SimTime begin, end;
};

/// The first traced step: the spans from the trace's first to `end`, and when they begin and end.
/// Requires spans.
struct FirstStep {
  SpanIterator end;
  SimTime first, last;
};
FirstStep first_step(const Trace& trace);

/// The blocks of the rank whose spans of a step are [begin, end). An idle time of at least `gap`
/// between two of them keeps them apart.
std::vector<TimelineBlock> timeline_blocks(const Trace& trace, SpanIterator begin, SpanIterator end,
                                           SimTime gap);

/// "12.5 ms".
std::string timeline_time(SimTime t);

/// "3 more ranks do exactly what one of these does", a line; empty if all ranks have spans.
std::string twins_remark(const Trace& trace);

}  // namespace lockstep
