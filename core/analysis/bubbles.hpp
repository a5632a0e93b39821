// Bubbles: where the compute stream of a rank stands still, and why.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/analysis/rank_work.hpp"
#include "core/analysis/step_graph.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {

/// Why a rank computes nothing:
/// - WarmUp: the pipeline fills. The rank waits for a message before its first backward op, or
///   waits before its first op for no reason that the trace shows.
/// - Peer: a transfer of this rank cannot begin, because another rank has not come to it yet.
/// - Communication: a transfer of this rank runs. Added up, this is RankReport::exposed_comm.
/// - CoolDown: the pipeline drains. The rank waits for a message after its last forward op, for
///   other stages after its last backward op, or for the end of the step after its last op of all.
/// - Data: a copy of samples to the device waits for the data loader.
/// - Other: none of these, for example host work, a copy, or overhead between ops.
enum class BubbleCause : std::uint8_t { WarmUp, Peer, Communication, CoolDown, Data, Other };
inline constexpr int kNumBubbleCauses = static_cast<int>(BubbleCause::Other) + 1;
std::string_view to_string(BubbleCause cause);  // "warm-up", "waiting for a peer", …

/// A stretch of idle time with one cause; the stretches of one gap follow each other.
struct Bubble {
  Rank rank = 0;
  SimTime begin{}, end{};
  BubbleCause cause = BubbleCause::Other;
  SpanIndex next = -1;  // the compute span that ends the gap; -1: the step ends
  /// What the rank waits for: its transfer, a copy, or another rank's op (the peer's side of the
  /// transfer, or the compute that this side waits for). -1: nothing that belongs to the step.
  SpanIndex blocker = -1;
  SimTime length() const { return end - begin; }
  bool operator==(const Bubble&) const = default;
};

using TimeByCause = IndexArray<BubbleCause, SimTime, kNumBubbleCauses>;  // by BubbleCause

struct Bubbles {
  std::vector<Bubble> list;  // sorted by rank, then by time; only of ranks with spans of their own
  IndexVector<Rank, TimeByCause> by_rank;  // by rank; a rank's causes add up to makespan - compute
  TimeByCause total{};                     // summed over all ranks
  SimTime makespan{};
  SimTime least_idle{};       // makespan - compute of the busiest rank
  SimTime idle() const;       // sum of `total`
  double fraction() const;    // idle / (ranks × makespan); (p-1)/(m+p-1) for a uniform pipeline
  double over_ideal() const;  // idle / busy of the busiest rank: (p-1)/m, as in the Megatron paper
};

/// Finds the bubbles of a rank, appends them to `out` unless it is null, and returns their sums.
/// Each gap between two compute spans is explained backwards from the op that ends it: what that op
/// waited for on its rank, then what this waited for, until the begin of the gap. Takes time linear
/// in the spans.
TimeByCause find_bubbles(const StepGraph& step, const RankWork& work, std::vector<Bubble>* out);
/// Finds the bubbles of every rank.
Bubbles find_bubbles(const StepGraph& step);
/// The same without the list: of thousands of ranks it takes about as much memory as their spans.
Bubbles sum_bubbles(const StepGraph& step);

/// The bubble at time t on `rank`, or on the rank that stands for it (Trace::same_as). Null: the
/// rank computes at t.
const Bubble* bubble_at(const Bubbles& bubbles, const StepGraph& step, Rank rank, SimTime t);

/// "waits for forward microbatch 3 of stage 1 (rank 1)": what a bubble waits for, in words.
std::string describe(const StepGraph& step, const Bubble& bubble);
/// "forward microbatch 3 of stage 1": a span's op, in words.
std::string describe(const StepGraph& step, SpanIndex span);

}  // namespace lockstep
