// compare: lays two runs side by side; what differs most comes first.
#pragma once

#include <string>
#include <vector>

#include "core/analysis/report.hpp"
#include "core/analysis/step_causes.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

struct KindDifference {
  std::string kind;
  KindTime a, b;
};

/// The time of all ops of one name ("block.F", "all_reduce dp", a kernel's) in a step, summed over
/// ranks and spans; mean over the traced steps. What hosts do is left out where devices work,
/// because it nests. An op that one run lacks has a count of 0 there.
struct OpDifference {
  std::string name;
  KindTime a, b;
};

/// "new" for what only B has, "gone" for what only A has, otherwise b relative to a: "+3.2 %".
std::string change_of(const KindTime& a, const KindTime& b);

/// The same for all ops of one stream ("compute", "gather").
struct StreamDifference {
  std::string name;
  KindTime a, b;
};

/// The times of one rank; only for two runs that have equally many ranks.
struct RankDifference {
  Rank rank = 0;    // RankReport::rank
  Rank number = 0;  // RankReport::number
  Seconds compute_a, compute_b, exposed_a, exposed_b, idle_a, idle_b;
  Seconds largest() const;  // the largest absolute difference of the three pairs
};

/// The i-th traced step of one run beside the i-th of the other.
struct StepDifference {
  std::int32_t step_a = 0, step_b = 0;
  Seconds a, b;  // makespans
};

/// Most bytes of one buffer kind that any rank had alive at once in the first traced step.
struct MemoryDifference {
  std::string kind;
  Bytes a, b;
};

struct LossDifference {
  int steps = 0;        // how many both runs have
  double largest = 0;   // |a - b|
  double relative = 0;  // largest |a - b| / |a|
  int worst_step = -1;  // where `largest` was found
};

struct Comparison {
  bool same_program = false;          // program hashes are equal
  bool same_order = false;            // every rank and stream ran the same ops in the same order
  bool same_memory = false;           // peak memory of every rank, to the byte
  std::vector<KindDifference> kinds;  // sorted by |time a - time b|, descending
  std::vector<OpDifference> ops;      // likewise
  std::vector<StreamDifference> streams;  // likewise
  std::vector<RankDifference> ranks;      // likewise; empty if the numbers of ranks differ
  std::vector<MemoryDifference> memory;   // sorted by |bytes a - bytes b|, descending
  std::vector<StepDifference> steps;      // in order, up to the end of the shorter run
  LossDifference losses;
  StepCauses parts_a{}, parts_b{};  // each adds up to the run's step time
  std::string conclusion;           // conclusion() of step_causes.hpp
};

Comparison compare(const Report& a, const Trace& trace_a, const Report& b, const Trace& trace_b);
/// Both reports, and what they differ in, as JSON with a final line end.
std::string comparison_json(const Report& a, const Report& b, const Comparison& comparison);
/// Comparison::memory, of samples that the traces need not have themselves.
std::vector<MemoryDifference> compare_memory(const Trace& a,
                                             const std::vector<MemorySample>& samples_a,
                                             const Trace& b,
                                             const std::vector<MemorySample>& samples_b);

}  // namespace lockstep
