// IntervalMap: a value for every byte range of [0, 2^63). A new range replaces the ranges that it
// covers, and splits those of which it covers a part. Most maps have one piece or none, which lies
// in the map itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/sorted_chunks.hpp"

namespace lockstep {

template <class T>
class IntervalMap {
 public:
  /// Calls visit(begin, end, value) for every piece that touches [begin, end), in order. The first
  /// and the last piece may extend beyond the range.
  template <class Visit>
  void visit(std::int64_t begin, std::int64_t end, Visit&& visit) const {
    if (begin >= end) return;
    if (!many_) {
      if (only_.begin < end && begin < only_.end) visit(only_.begin, only_.end, only_.value);
      return;
    }
    for (Place at = first_touching(begin); starts_before(at, end); at = pieces_.next(at)) {
      const Piece& piece = pieces_[at];
      visit(piece.begin, piece.end, piece.value);
    }
  }

  /// Splits pieces at the ends of [begin, end), fills its gaps with T{}, then calls change(value)
  /// for every piece inside.
  template <class Change>
  void update(std::int64_t begin, std::int64_t end, Change&& change) {
    if (begin >= end) return;
    if (!many_ && only_.empty()) only_ = {begin, end, T{}};
    if (!many_ && only_.begin == begin && only_.end == end) return change(only_.value);
    spread();
    Place at = first_touching(begin);
    if (starts_before(at, begin)) {
      Piece right = pieces_[at];
      pieces_[at].end = right.begin = begin;
      at = pieces_.insert(pieces_.next(at), std::move(right));
    }
    for (std::int64_t from = begin; from < end; at = pieces_.next(at)) {
      if (!starts_before(at, from + 1)) {
        const std::int64_t gap_end = starts_before(at, end) ? pieces_[at].begin : end;
        at = pieces_.insert(at, {from, gap_end, T{}});
      } else if (pieces_[at].end > end) {
        Piece left = pieces_[at];
        left.end = pieces_[at].begin = end;
        at = pieces_.insert(at, std::move(left));
      }
      change(pieces_[at].value);
      from = pieces_[at].end;
    }
  }

  /// Makes [begin, end) one piece with `value`.
  void assign(std::int64_t begin, std::int64_t end, const T& value) {
    if (begin < end) one_piece(begin, end) = value;
  }

  /// Makes [begin, end), which is not empty, one piece. Returns its value, for the caller to set.
  T& one_piece(std::int64_t begin, std::int64_t end) {
    return one_piece(begin, end, [](const T&) {});
  }
  /// The same, after visit(value) was called for every piece that touches it, in order.
  template <class Visit>
  T& one_piece(std::int64_t begin, std::int64_t end, Visit&& visit) {
    if (!many_ && (only_.empty() || (begin <= only_.begin && only_.end <= end))) {
      if (!only_.empty()) visit(only_.value);
      only_.begin = begin;
      only_.end = end;
      return only_.value;
    }
    spread();
    Place at = first_touching(begin);
    for (Place old = at; starts_before(old, end); old = pieces_.next(old))
      visit(pieces_[old].value);
    if (starts_before(at, begin)) {
      Piece right = pieces_[at];
      pieces_[at].end = begin;
      at = pieces_.next(at);
      if (right.end > end) {
        right.begin = end;
        at = pieces_.insert(at, std::move(right));
      }
    }
    if (starts_before(at, end) && pieces_[at].end <= end) {  // in the common case, with these ends
      pieces_[at].begin = begin;
      pieces_[at].end = end;
      for (Place next = pieces_.next(at); starts_before(next, end);) {
        if (pieces_[next].end > end) {
          pieces_[next].begin = end;
        } else {
          next = pieces_.remove(next);
        }
      }
    } else {
      if (starts_before(at, end)) pieces_[at].begin = end;
      at = pieces_.insert(at, {begin, end, T{}});
    }
    return pieces_[at].value;
  }

  /// Removes the piece that begins at `begin`.
  void erase(std::int64_t begin) {
    spread();
    const Place at = first_touching(begin);
    if (pieces_.valid(at) && pieces_[at].begin == begin) pieces_.remove(at);
  }
  /// Keeps some of its memory for new pieces.
  void clear() {
    only_.begin = only_.end = 0;
    if (many_) pieces_.clear();
    many_ = false;
  }

  /// Whether pieces cover all of [begin, end).
  bool covers(std::int64_t begin, std::int64_t end) const {
    std::int64_t at = begin;
    visit(begin, end, [&](std::int64_t piece_begin, std::int64_t piece_end, const T&) {
      if (piece_begin <= at) at = std::max(at, piece_end);
    });
    return at >= end;
  }

 private:
  struct Piece {
    std::int64_t begin = 0, end = 0;
    T value{};
    bool empty() const { return begin == end; }
  };
  using Place = typename SortedChunks<Piece>::Place;

  /// The first piece that ends after `begin`.
  Place first_touching(std::int64_t begin) const {
    return pieces_.find([begin](const Piece& piece) { return piece.end <= begin; });
  }
  bool starts_before(Place at, std::int64_t end) const {
    return pieces_.valid(at) && pieces_[at].begin < end;
  }

  /// Moves the only piece among those of a map that has several.
  void spread() {
    if (many_) return;
    many_ = true;
    if (!only_.empty()) pieces_.insert({}, std::move(only_));
  }

  Piece only_;                  // empty: there is none
  bool many_ = false;           // if so, `pieces_` counts instead
  SortedChunks<Piece> pieces_;  // disjoint
};

}  // namespace lockstep
