#include "core/base/free_list.hpp"

#include <algorithm>

#include "core/base/units.hpp"

namespace lockstep {

FreeList::Ranges::Place FreeList::find_fit(Range range) const {
  return by_bytes_.find([range](const Range& r) {
    return r.bytes < range.bytes || (r.bytes == range.bytes && r.offset < range.offset);
  });
}

FreeList::Ranges::Place FreeList::find_end(std::int64_t offset) const {
  return by_offset_.find([offset](const Range& r) { return r.offset + r.bytes < offset; });
}

void FreeList::change(Ranges::Place by_offset, Range range) {
  by_bytes_.remove(find_fit(by_offset_[by_offset]));
  if (range.bytes == 0) {
    by_offset_.remove(by_offset);
  } else {
    by_offset_[by_offset] = range;
    by_bytes_.insert(find_fit(range), range);
  }
}

std::int64_t FreeList::allocate(std::int64_t bytes) {
  if (bytes <= 0) return 0;
  bytes = round_up(bytes, kAlignment);
  const Ranges::Place fit = find_fit({0, bytes});
  if (by_bytes_.valid(fit)) {
    const Range range = by_bytes_[fit];
    by_bytes_.remove(fit);
    const Ranges::Place at = find_end(range.offset + range.bytes);
    if (range.bytes == bytes) {
      by_offset_.remove(at);
    } else {
      const Range rest = by_offset_[at] = {range.offset + bytes, range.bytes - bytes};
      by_bytes_.insert(find_fit(rest), rest);
    }
    return range.offset;
  }
  const std::int64_t offset = end_;
  end_ += bytes;
  high_water_ = std::max(high_water_, end_);
  return offset;
}

void FreeList::release(std::int64_t offset, std::int64_t bytes) {
  if (bytes <= 0) return;
  Range range{offset, round_up(bytes, kAlignment)};
  const Ranges::Place at = find_end(offset);
  const auto touches = [&] {
    return by_offset_.valid(at) && by_offset_[at].offset <= range.offset + range.bytes;
  };
  bool joined = false;  // with the range before it, or else with the one behind
  if (touches()) {
    joined = true;
    const Range other = by_offset_[at];
    range = {std::min(offset, other.offset), range.bytes + other.bytes};
    const Ranges::Place behind = by_offset_.next(at);
    if (by_offset_.valid(behind) && by_offset_[behind].offset == range.offset + range.bytes) {
      range.bytes += by_offset_[behind].bytes;
      change(behind, {});
    }
  }
  const bool last = range.offset + range.bytes == end_;
  if (last) end_ = range.offset;
  if (joined) {
    change(at, last ? Range{} : range);
  } else if (!last) {
    by_offset_.insert(at, range);
    by_bytes_.insert(find_fit(range), range);
  }
}

}  // namespace lockstep
