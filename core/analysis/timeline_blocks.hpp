// Timeline blocks: what a rank's compute stream does in a step, for those who draw it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"

namespace lockstep {

/// Consecutive compute ops of one phase, stage and microbatch, drawn as one.
struct TimelineBlock {
  char letter;  // F, B, I, W, R, O as in Phase; + other compute
  std::int32_t stage, microbatch;
  SimTime begin, end;
};

/// When the first traced step begins and ends. Requires spans.
struct FirstStep {
  SimTime first, last;
};
FirstStep first_step(const Trace& trace);

/// What a rank does in a step. An idle time of at least `gap` between two blocks keeps them apart.
std::vector<TimelineBlock> timeline_blocks(const Trace& trace, const Spans::Run& run, SimTime gap);

/// "12.5 ms".
std::string timeline_time(SimTime t);

/// "3 more ranks do exactly what one of these does", a line; empty if all ranks have spans.
std::string twins_remark(const Trace& trace);

}  // namespace lockstep
