// In flight: what moves between ranks at a moment, what each rank does, and a caption that says so.
// The application uses it to play a step.
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
  bool message = false;     // true: from ranks[0] to ranks[1]; false: a collective of all `ranks`
  std::vector<Rank> ranks;  // ascending for a collective
  std::int64_t bytes = 0;   // for a collective its unsharded size
  SimTime begin{}, end{};   // from when all its peers were there until it has arrived everywhere
  double done = 0;          // 0..1; 1: it has ended, and lingers
  bool operator==(const Flight&) const = default;
};

/// All transfers that are under way at t or ended at most `linger` before it, sorted by span, then
/// by ranks. Transfers of ranks that another one stands for are included (messages only with a
/// program, which tells their peers).
std::vector<Flight> in_flight(const StepGraph& step, SimTime t, SimTime linger = {});

/// The span whose running time (active..end) holds t on this rank and stream; -1: none.
SpanIndex running_at(const StepGraph& step, Rank rank, int stream, SimTime t);

/// What a rank's compute stream does at t: a compute span or a bubble. It has neither if t is
/// outside the step.
struct RankActivity {
  SpanIndex computing = -1;
  const Bubble* bubble = nullptr;
};
RankActivity activity_at(const StepGraph& step, const Bubbles& bubbles, Rank rank, SimTime t);

/// A rank's activity in words: "runs forward of microbatch 3 on stage 1", "waits for forward of
/// microbatch 3 on stage 1 (rank 1): warm-up".
std::string describe(const StepGraph& step, const RankActivity& activity);

/// What happens at t and why, in at most three sentences: what is computed, what moves, who waits
/// for whom. The text depends on the step and the time alone.
std::string caption(const StepGraph& step, const Bubbles& bubbles, SimTime t);

}  // namespace lockstep
