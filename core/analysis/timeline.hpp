// A training step in characters: ranks against time.
#pragma once

#include <string>

#include "core/trace/trace.hpp"

namespace lockstep {

struct TimelineOptions {
  int width = 100;     // characters of a whole line, labels included
  int max_ranks = 64;  // lines; a last line counts the ranks left out
};

/// Draws one line per rank that has its own spans: what its compute stream (the one with most
/// compute time) does in the first traced step.
/// F forward, B backward, I and W backward for input and for weights, R recompute, O optimizer, +
/// other compute, . idle. A block of one (stage, microbatch) that is wide enough starts with its
/// letter and microbatch number and is filled with '-': "F12---". In narrower blocks, each letter
/// shows what takes most of its column.
/// Empty without spans.
std::string draw_timeline(const Trace& trace, const TimelineOptions& options = {});

}  // namespace lockstep
