// IntervalMap: a value for every byte range of [0, 2^63). A new range replaces the ranges that it
// covers, and splits those of which it covers a part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace lockstep {

template <class T>
class IntervalMap {
 public:
  struct Piece {
    std::int64_t end = 0;
    T value{};
  };

  /// Calls visit(begin, end, value) for every piece that touches [begin, end), in order. The first
  /// and the last piece may extend beyond the range.
  template <class Visit>
  void visit(std::int64_t begin, std::int64_t end, Visit&& visit) const {
    if (begin >= end) return;
    for (auto it = first_touching(begin); it != pieces_.end() && it->first < end; ++it) {
      visit(it->first, it->second.end, it->second.value);
    }
  }

  /// Splits pieces at the ends of [begin, end), fills its gaps with T{}, then calls change(value)
  /// for every piece inside.
  template <class Change>
  void update(std::int64_t begin, std::int64_t end, Change&& change) {
    if (begin >= end) return;
    split(begin);
    split(end);
    std::int64_t at = begin;
    for (auto it = pieces_.lower_bound(begin); at < end;) {
      if (it == pieces_.end() || it->first > at) {
        const std::int64_t gap_end = it == pieces_.end() ? end : std::min(end, it->first);
        it = pieces_.emplace_hint(it, at, Piece{gap_end, T{}});
      }
      change(it->second.value);
      at = it->second.end;
      ++it;
    }
  }

  /// Makes [begin, end) one piece with `value`.
  void assign(std::int64_t begin, std::int64_t end, T value) {
    if (begin >= end) return;
    split(begin);
    split(end);
    const auto first = pieces_.lower_bound(begin);
    const auto last = pieces_.lower_bound(end);
    if (first != last && first->first == begin) {  // in the common case, the node is reused
      first->second = Piece{end, std::move(value)};
      pieces_.erase(std::next(first), last);
      return;
    }
    pieces_.erase(first, last);
    pieces_.emplace(begin, Piece{end, std::move(value)});
  }

  /// Removes the piece that begins at `begin`.
  void erase(std::int64_t begin) { pieces_.erase(begin); }
  void clear() { pieces_.clear(); }

  /// Whether pieces cover all of [begin, end).
  bool covers(std::int64_t begin, std::int64_t end) const {
    std::int64_t at = begin;
    visit(begin, end, [&](std::int64_t piece_begin, std::int64_t piece_end, const T&) {
      if (piece_begin <= at) at = std::max(at, piece_end);
    });
    return at >= end;
  }

 private:
  auto first_touching(std::int64_t begin) const {
    auto it = pieces_.upper_bound(begin);
    if (it != pieces_.begin() && std::prev(it)->second.end > begin) --it;
    return it;
  }

  void split(std::int64_t at) {
    auto it = pieces_.upper_bound(at);
    if (it == pieces_.begin()) return;
    --it;
    if (it->first >= at || it->second.end <= at) return;
    const Piece right = it->second;
    it->second.end = at;
    pieces_.emplace(at, right);
  }

  std::map<std::int64_t, Piece> pieces_;
};

}  // namespace lockstep
