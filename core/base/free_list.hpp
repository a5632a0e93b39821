// FreeList: best-fit allocation of byte ranges in an arena without end. It is deterministic: of
// ranges that fit equally well it takes the one with the lowest offset. It remembers who had each
// free byte last.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/base/index_vector.hpp"

namespace lockstep {

class FreeList {
 public:
  static constexpr std::int64_t kAlignment = 256;  // of every range, bytes; enough for any device
  using Lot = std::int32_t;                        // a range that is taken
  static constexpr Lot kNothing = -1;              // a range of no bytes
  using Tenant = std::int32_t;                     // who has a range, as the caller counts
  static constexpr Tenant kNobody = -1;

  FreeList();
  /// Takes a free range of `bytes`. Adds those who had parts of it last to `former`, by offset.
  Lot take(std::int64_t bytes, std::vector<Tenant>* former = nullptr);
  /// Where a lot begins; 0 if it has no bytes.
  std::int64_t offset(Lot lot) const { return lot == kNothing ? 0 : pieces_[lot].offset; }
  /// Gives back a range, which `tenant` had.
  void give_back(Lot lot, Tenant tenant = kNobody);
  std::int64_t high_water() const { return high_water_; }

 private:
  /// A range that is taken, or free and had one tenant. The pieces of an arena are a list by
  /// offset. Those that are free and touch each other are a run, whose ends know each other.
  struct Piece {
    std::int64_t offset = 0, bytes = 0;
    Lot before = -1, behind = -1;
    Lot other_end = kTaken;  // of its run; undefined inside a run
    Tenant last = kNobody;
    std::int32_t place = 0;  // of the run in its class, if the piece is its first
    std::int64_t end() const { return offset + bytes; }
    bool free() const { return other_end != kTaken; }
  };
  struct Run {
    std::int64_t bytes = 0, offset = 0;
    Lot first = -1;
  };
  static constexpr Lot kTaken = -1;
  static constexpr int kClasses = 63;

  /// Runs whose sizes have equally many digits, in any order. A lot looks at those of one class or
  /// two, which are few: mostly there are some twenty runs in all.
  static int class_of(std::int64_t bytes) {
    return std::bit_width(static_cast<std::uint64_t>(bytes)) - 1;
  }
  /// The first piece of the shortest run that has enough bytes, and of these of the lowest.
  Lot shortest_run(std::int64_t bytes) const;
  /// Makes the pieces from `first` to `last` a run that can be taken.
  void add_run(Lot first, Lot last);
  void remove_run(Lot first, Lot last);
  std::int64_t bytes_of_run(Lot first, Lot last) const {
    return pieces_[last].end() - pieces_[first].offset;
  }
  Lot new_piece();

  IndexVector<Lot, Piece> pieces_;
  std::vector<Lot> unused_;                           // pieces that are in no list
  IndexArray<int, std::vector<Run>, kClasses> runs_;  // one of them has no end
  std::uint64_t some_ = 0;                            // the classes that have runs, as bits
  std::int64_t high_water_ = 0;
};

}  // namespace lockstep
