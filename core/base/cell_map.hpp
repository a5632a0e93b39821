// CellMap: a value for every cell of a line, which is cut wherever a range begins or ends. Cells
// are never joined again, so it is for lines whose ranges begin and end in few places, such as an
// arena.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "core/base/index_vector.hpp"

namespace lockstep {

template <class T>
class CellMap {
 public:
  /// Of a line [0, length) of which about so many ranges will be visited.
  CellMap(std::int64_t length, std::size_t ranges) {
    const int bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(length, 1)));
    shift_ = std::max(bits - static_cast<int>(std::bit_width(ranges)), 0);
    at_stop_.assign((length >> shift_) + 1, 0);
    cells_.push_back({0, std::numeric_limits<std::int64_t>::max()});
  }

  /// Cuts the line at the ends of [begin, end), which lies on it, and calls visit(value) for every
  /// cell between, in order. A cell takes over the value of the one from which it was cut.
  template <class Visit>
  void visit(std::int64_t begin, std::int64_t end, Visit&& visit) {
    if (begin >= end) return;
    Place at = at_stop_[begin >> shift_];
    while (cells_[at].end <= begin) at = cells_[at].next;
    if (cells_[at].begin < begin) at = cells_[cut(at, begin)].next;
    for (;; at = cells_[at].next) {
      if (cells_[at].end > end) at = cut(at, end);
      visit(cells_[at].value);
      if (cells_[at].end == end) return;
    }
  }

 private:
  using Place = std::int32_t;
  struct Cell {
    std::int64_t begin = 0, end = 0;
    Place before = -1, next = -1;
    T value{};
  };

  /// Cuts a cell in two. Returns the first of them. The shorter one is new, because stops are found
  /// anew within it.
  Place cut(Place at, std::int64_t where) {
    const Place added = cells_.next();
    cells_.push_back(cells_[at]);
    Cell &old = cells_[at], &fresh = cells_[added];
    const bool first = where - old.begin < old.end - where;
    if (first) {
      old.begin = fresh.end = where;
      fresh.next = at;
      if (old.before >= 0) cells_[old.before].next = added;
      old.before = added;
    } else {
      old.end = fresh.begin = where;
      fresh.before = at;
      if (old.next >= 0) cells_[old.next].before = added;
      old.next = added;
    }
    const auto stops = static_cast<std::int64_t>(at_stop_.size());
    const std::int64_t distance = std::int64_t{1} << shift_;
    for (std::int64_t s = (fresh.begin + distance - 1) >> shift_;
         s < stops && s << shift_ < fresh.end; ++s) {
      at_stop_[s] = added;
    }
    return first ? added : at;
  }

  int shift_ = 0;
  IndexVector<std::int64_t, Place> at_stop_;  // the cell at every 2^shift_ bytes
  IndexVector<Place, Cell> cells_;
};

}  // namespace lockstep
