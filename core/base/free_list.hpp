// FreeList: best-fit allocation of byte ranges in a growing arena. It is deterministic: of ranges
// that fit equally well it takes the one with the lowest offset.
#pragma once

#include <cstdint>

#include "core/base/sorted_chunks.hpp"

namespace lockstep {

class FreeList {
 public:
  static constexpr std::int64_t kAlignment = 256;  // of every range, bytes; enough for any device

  /// Takes a free range of `bytes` and returns its offset. Zero bytes take nothing.
  std::int64_t allocate(std::int64_t bytes);
  /// Gives back a range from allocate().
  void release(std::int64_t offset, std::int64_t bytes);
  std::int64_t high_water() const { return high_water_; }

 private:
  struct Range {
    std::int64_t offset = 0, bytes = 0;
  };
  using Ranges = SortedChunks<Range>;
  /// The first range of at least so many bytes, and of those the first at the offset or above it.
  Ranges::Place find_fit(Range range) const;
  /// The first free range that ends at the offset or above it.
  Ranges::Place find_end(std::int64_t offset) const;
  /// Changes a free range; without bytes it is not free any more.
  void change(Ranges::Place by_offset, Range range);

  Ranges by_offset_;      // free ranges, of which no two touch
  Ranges by_bytes_;       // the same by size, then by offset
  std::int64_t end_ = 0;  // above it everything is free
  std::int64_t high_water_ = 0;
};

}  // namespace lockstep
