// Shards: which part of the parameters, gradients and optimizer states each rank keeps, and which
// parameters it holds unsharded besides at a moment.
#pragma once

#include <cstdint>
#include <vector>

#include "core/analysis/memory_map.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Elements [begin, end) of an FSDP unit's flattened parameters, without the padding that makes
/// pieces equal.
struct ElementRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

/// What a rank keeps of one FSDP unit. Where tensor parallelism splits the unit, the rank has part
/// `part` of `parts`, and the ranges are pieces of that part.
struct UnitShard {
  std::size_t unit = 0;    // into Role::units
  std::int64_t whole = 0;  // elements of the unit's parameters, all parts together
  int part = 0, parts = 1;
  std::int64_t elements = 0;  // of the rank's part, of which the ranges are pieces
  ElementRange parameters;    // the whole part, or a piece of it
  ElementRange gradients;     // likewise, after they are summed over the ranks
  ElementRange optimizer;     // of each moment; empty: the optimizer has no moments
  bool operator==(const UnitShard&) const = default;
};

struct RankShards {
  Rank rank = 0;
  std::vector<int> coordinates;  // by mesh dimension
  std::vector<UnitShard> units;  // those of the rank's role, in its order
  /// Elements, summed over `units`; `optimizer` counts one moment.
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;
};
RankShards shards_of(const Program& program, Rank rank);

/// An unsharded copy of a unit's parameters: gathered in [from, ready), and held until `until`.
struct GatheredUnit {
  std::size_t unit = 0;  // into Role::units
  BufferId buffer;
  SimTime from{}, ready{}, until{};
  bool operator==(const GatheredUnit&) const = default;
};
/// The copies that exist at time t, sorted by unit, then by `from`. `lives` is what buffer_lives
/// returned for the rank. Requires a program.
std::vector<GatheredUnit> gathered_at(const StepGraph& step, Rank rank,
                                      const std::vector<BufferLife>& lives, SimTime t);

}  // namespace lockstep
