// FreeList: best-fit allocation of byte ranges in a growing arena. It is deterministic: of ranges
// that fit equally well it takes the one with the lowest offset.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

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
  void insert(std::int64_t offset, std::int64_t bytes);
  void erase(std::map<std::int64_t, std::int64_t>::iterator range);

  std::map<std::int64_t, std::int64_t> by_offset_;            // free ranges: offset -> bytes
  std::set<std::pair<std::int64_t, std::int64_t>> by_bytes_;  // free ranges: (bytes, offset)
  std::int64_t end_ = 0;                                      // above it everything is free
  std::int64_t high_water_ = 0;
};

}  // namespace lockstep
