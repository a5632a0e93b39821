// Bubbles: where the compute stream of a rank stands still, and why.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// Why a rank computes nothing:
/// - WarmUp: the pipeline fills: before the rank's first backward op, for a message; or before its
///   first op, for no reason that the trace shows.
/// - Peer: a transfer cannot begin, because another rank has not come yet.
/// - Communication: a transfer of this rank runs. Added up, this is RankReport::exposed_comm.
/// - CoolDown: the pipeline drains: after the rank's last forward op, for a message; after its last
///   backward op, for other stages; or after its last op of all, until the step ends.
/// - Other: nothing of these: host work, a copy, overhead between ops.
enum class BubbleCause : std::uint8_t { WarmUp, Peer, Communication, CoolDown, Other };
inline constexpr int kNumBubbleCauses = static_cast<int>(BubbleCause::Other) + 1;
std::string_view to_string(BubbleCause cause);  // "warm-up", "waiting for a peer", …

/// A stretch of idle time with one cause; the stretches of one gap follow each other.
struct Bubble {
  Rank rank = 0;
  SimTime begin{}, end{};
  BubbleCause cause = BubbleCause::Other;
  SpanIndex next = -1;     // the compute span that ends the gap; -1: the step ends
  SpanIndex blocker = -1;  // what the rank waits for: the transfer, another rank's op (its compute,
                           // if that is what its side of the transfer waits for), a copy; -1:
                           // nothing that belongs to the step
  SimTime length() const { return end - begin; }
  bool operator==(const Bubble&) const = default;
};

using TimeByCause = std::array<SimTime, kNumBubbleCauses>;  // by BubbleCause

struct Bubbles {
  std::vector<Bubble> list;          // by rank, then by time; ranks with spans of their own
  std::vector<TimeByCause> by_rank;  // every rank: its causes add up to makespan - compute
  TimeByCause total{};               // over all ranks
  SimTime makespan{};
  SimTime least_idle{};       // of the busiest rank
  SimTime idle() const;       // sum of `total`
  double fraction() const;    // idle / (ranks × makespan): (p-1)/(m+p-1) of a uniform pipeline
  double over_ideal() const;  // idle / busy of the busiest rank: (p-1)/m, as in the Megatron paper
};

/// Each gap between compute spans of a rank is told backwards from the op that ends it: what that
/// op waited for on its rank, what this waited for, as far as the gap reaches. Linear in the spans.
Bubbles find_bubbles(const StepGraph& step);

/// The one at time t on this rank or on the one that stands for it; null: it computes then.
const Bubble* bubble_at(const Bubbles& bubbles, const StepGraph& step, Rank rank, SimTime t);

/// "waits for forward microbatch 3 of stage 1 (rank 1)": what a bubble waits for, in words.
std::string describe(const StepGraph& step, const Bubble& bubble);
/// "forward microbatch 3 of stage 1": a span's op, in words.
std::string describe(const StepGraph& step, SpanIndex span);

}  // namespace lockstep
