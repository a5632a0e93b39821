// Shards: which part of the parameters, gradients and optimizer states each rank keeps, and what it
// has gathered besides at a moment.
#pragma once

#include <cstdint>
#include <vector>

#include "core/analysis/memory_map.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Elements [begin, end) of a unit's parameters, laid out flat; without the padding that makes
/// pieces equal.
struct ElementRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

/// What a rank keeps of one unit. Where tensor parallelism splits the unit, the rank has part
/// `part` of `parts`, and the ranges are pieces of that part.
struct UnitShard {
  std::size_t unit = 0;    // into Role::units
  std::int64_t whole = 0;  // elements of the parameters, of all parts
  int part = 0, parts = 1;
  std::int64_t elements = 0;  // of the rank's part: what the ranges are pieces of
  ElementRange parameters;    // all, or its piece
  ElementRange gradients;     // likewise, once they are summed over the ranks
  ElementRange optimizer;     // of each moment; empty: the optimizer keeps none
  bool operator==(const UnitShard&) const = default;
};

struct RankShards {
  Rank rank = 0;
  std::vector<int> coordinates;  // by mesh dimension
  std::vector<UnitShard> units;  // those of the rank's role, in its order
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;  // elements: sums over `units`;
                                                              // optimizer: of one moment
};
RankShards shards_of(const Program& program, Rank rank);

/// A unit's whole parameters in memory for a while: gathered in [from, ready), there until `until`.
struct GatheredUnit {
  std::size_t unit = 0;  // into Role::units
  BufferId buffer;
  SimTime from{}, ready{}, until{};
  bool operator==(const GatheredUnit&) const = default;
};
/// At time t, by unit, then by `from`. `lives`: of buffer_lives of the rank. Requires a program.
std::vector<GatheredUnit> gathered_at(const StepGraph& step, Rank rank,
                                      const std::vector<BufferLife>& lives, SimTime t);

}  // namespace lockstep
