#include "core/base/free_list.hpp"

#include <algorithm>

#include "core/base/units.hpp"

namespace lockstep {

void FreeList::insert(std::int64_t offset, std::int64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_bytes_.emplace(bytes, offset);
}

void FreeList::erase(std::map<std::int64_t, std::int64_t>::iterator range) {
  by_bytes_.erase({range->second, range->first});
  by_offset_.erase(range);
}

std::int64_t FreeList::allocate(std::int64_t bytes) {
  if (bytes <= 0) return 0;
  bytes = round_up(bytes, kAlignment);
  const auto fit = by_bytes_.lower_bound({bytes, 0});
  if (fit != by_bytes_.end()) {
    const auto [free_bytes, offset] = *fit;
    erase(by_offset_.find(offset));
    if (free_bytes > bytes) insert(offset + bytes, free_bytes - bytes);
    return offset;
  }
  const std::int64_t offset = end_;
  end_ += bytes;
  high_water_ = std::max(high_water_, end_);
  return offset;
}

void FreeList::release(std::int64_t offset, std::int64_t bytes) {
  if (bytes <= 0) return;
  bytes = round_up(bytes, kAlignment);
  auto next = by_offset_.lower_bound(offset);
  if (next != by_offset_.end() && next->first == offset + bytes) {
    bytes += next->second;
    erase(next);
  }
  auto previous = by_offset_.lower_bound(offset);
  if (previous != by_offset_.begin()) {
    --previous;
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      erase(previous);
    }
  }
  if (offset + bytes == end_) {
    end_ = offset;
  } else {
    insert(offset, bytes);
  }
}

}  // namespace lockstep
