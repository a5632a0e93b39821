// In flight: what moves between ranks at a moment, what each rank does, and a caption that says it.
// For playing a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/analysis/bubbles.hpp"
#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// A transfer under way.
struct Flight {
  SpanIndex span = -1;      // the sender's, or that of the collective's first member with spans
  bool message = false;     // from ranks[0] to ranks[1]; else among all of `ranks`
  std::vector<Rank> ranks;  // of a collective ascending
  std::int64_t bytes = 0;   // of a collective its unsharded size
  SimTime begin{}, end{};   // all its peers were there; it has arrived everywhere
  double done = 0;          // 0..1; 1: it lingers
  bool operator==(const Flight&) const = default;
};

/// All transfers under way at t or at most `linger` before, those of ranks that another one stands
/// for among them (of messages: with a program only); by span, then by ranks.
std::vector<Flight> in_flight(const StepGraph& step, SimTime t, SimTime linger = {});

/// The span whose running time (active..end) holds t on this rank and stream; -1: none.
SpanIndex running_at(const StepGraph& step, Rank rank, int stream, SimTime t);

/// What a rank's compute stream does at t: a compute span or a bubble. Neither: t is outside.
struct RankActivity {
  SpanIndex computing = -1;
  const Bubble* bubble = nullptr;
};
RankActivity activity_at(const StepGraph& step, const Bubbles& bubbles, Rank rank, SimTime t);

/// "runs forward of microbatch 3 on stage 1", "waits for forward of microbatch 3 on stage 1 (rank
/// 1): warm-up": for a rank's line.
std::string describe(const StepGraph& step, const RankActivity& activity);

/// What happens at t and why, in at most three sentences: what is computed, what moves, who waits
/// for whom. The same for the same step and time.
std::string caption(const StepGraph& step, const Bubbles& bubbles, SimTime t);

}  // namespace lockstep
