// compare: two runs laid side by side, where they differ most first.
#pragma once

#include <string>
#include <vector>

#include "core/analysis/report.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

struct KindDifference {
  std::string kind;
  KindTime a, b;
};

/// Time of one op name ("block.F", "all_reduce dp"), summed over ranks and spans of one step: mean
/// over traced steps.
struct OpDifference {
  std::string name;
  KindTime a, b;
};

/// The same of one stream ("compute", "gather").
struct StreamDifference {
  std::string name;
  KindTime a, b;
};

/// Times of one rank, in runs of equally many.
struct RankDifference {
  Rank rank = 0;    // RankReport's
  Rank number = 0;  // likewise
  Seconds compute_a, compute_b, exposed_a, exposed_b, idle_a, idle_b;
  Seconds largest() const;  // of the three differences, without sign
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
  int steps = 0;        // that both runs have
  double largest = 0;   // |a - b|
  double relative = 0;  // |a - b| / |a|, largest
  int worst_step = -1;  // of `largest`
};

struct Comparison {
  bool same_program = false;          // program hashes are equal
  bool same_order = false;            // every rank and stream ran the same ops in the same order
  bool same_memory = false;           // peak memory of every rank, to the byte
  std::vector<KindDifference> kinds;  // |time a - time b| descending
  std::vector<OpDifference> ops;      // likewise: the worst offenders first
  std::vector<StreamDifference> streams;  // likewise
  std::vector<RankDifference> ranks;      // likewise; empty if the runs have not equally many
  std::vector<MemoryDifference> memory;   // |bytes a - bytes b| descending
  std::vector<StepDifference> steps;      // in their order, as far as both runs go
  LossDifference losses;
};

Comparison compare(const Report& a, const Trace& trace_a, const Report& b, const Trace& trace_b);

}  // namespace lockstep
