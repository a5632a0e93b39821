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
  LossDifference losses;
};

Comparison compare(const Report& a, const Trace& trace_a, const Report& b, const Trace& trace_b);

}  // namespace lockstep
