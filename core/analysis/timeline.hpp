// A training step in characters: ranks against time.
#pragma once

#include <string>

#include "core/trace/trace.hpp"

namespace lockstep {

struct TimelineOptions {
  int width = 100;     // characters of a whole line, labels included
  int max_ranks = 64;  // lines; the rest is counted in a last line
};

/// One line per rank that has its own spans: what its compute stream (the busiest one) does in the
/// first traced step.
/// F forward, B backward, I and W backward for input and for weights, R recompute, O optimizer,
/// + other compute, . idle. A block of one (stage, microbatch) that has the room starts with its
/// letter and microbatch number and goes on in '-': "F12---". Narrower ones are letters only, each
/// for what takes most of its column.
/// Empty without spans.
std::string draw_timeline(const Trace& trace, const TimelineOptions& options = {});

}  // namespace lockstep
