// Step causes: what a step's time consists of, by cause. The parts add up to the step, so that the
// differences of two steps' parts add up to the difference of the steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/analysis/report.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {

/// - Computation: the rank computes, recomputation aside.
/// - Recompute: it computes activations again (TraceOp::kind "recompute").
/// - Imbalance: the part of its waiting for peers that is there because it has less to compute than
///   the busiest rank: min(waiting for a peer, compute of the busiest rank - its own compute).
/// - WarmUp, Waiting, Communication, CoolDown, Data, Other: it computes nothing, for that cause;
///   Waiting is BubbleCause::Peer without the imbalance.
enum class StepCause : std::uint8_t {
  Computation,
  Recompute,
  Imbalance,
  WarmUp,
  Waiting,
  Communication,
  CoolDown,
  Data,
  Other
};
inline constexpr int kNumStepCauses = static_cast<int>(StepCause::Other) + 1;
std::string_view to_string(StepCause part);  // "computation", "waiting for a peer", …
/// The cause of the bubbles of a part; nothing for those that are not of one cause.
std::optional<BubbleCause> cause_of(StepCause part);

using StepCauses = IndexArray<StepCause, Seconds, kNumStepCauses>;

/// The parts of a run's step, as means over its ranks and traced steps. They add up to
/// Report::step_time.
StepCauses step_causes(const Report& report);

/// One sentence that says by how much B's step is shorter or longer than A's, and which parts that
/// comes from, the largest first: "B is 57 ms shorter (-12.0 %): 41 ms less warm-up and cool-down,
/// 19 ms less waiting for a peer, 3 ms more exposed communication (send)." At most three parts are
/// named, none of less than a twentieth of the largest. Empty if one of the steps takes no time.
std::string conclusion(const Report& a, const Report& b);

}  // namespace lockstep
