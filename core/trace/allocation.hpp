// Allocations: which blocks of a device's memory were in use, where, and for how long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/units.hpp"

namespace lockstep {

/// One block, in use in [from, until).
struct Allocation {
  Rank rank = 0;
  std::int32_t asked_by = 0;  // into Allocations::names: the line of code that asked for it
  std::int64_t offset = 0;    // bytes above the lowest address that the allocator ever had
  std::int64_t bytes = 0;
  SimTime from{}, until{};
  bool operator==(const Allocation&) const = default;
};

/// Those of a memory snapshot. What the allocator never had takes no room in the offsets, so that
/// segments follow each other without gaps.
struct Allocations {
  std::vector<Allocation> list;  // sorted by (rank, from, offset)
  IndexVector<std::int32_t, std::string> names;
  IndexVector<Rank, std::int64_t> extent;  // by rank: all addresses that the allocator ever had
  bool operator==(const Allocations&) const = default;
};

}  // namespace lockstep
