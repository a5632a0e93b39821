#include "core/base/free_list.hpp"

#include <algorithm>
#include <limits>

#include "core/base/units.hpp"

namespace lockstep {

FreeList::FreeList() {
  pieces_.push_back({0, std::numeric_limits<std::int64_t>::max()});
  add_run(0, 0);
}

FreeList::Lot FreeList::new_piece() {
  if (unused_.empty()) {
    pieces_.emplace_back();
    return pieces_.next() - 1;
  }
  const Lot piece = unused_.back();
  unused_.pop_back();
  return piece;
}

FreeList::Lot FreeList::shortest_run(std::int64_t bytes) const {
  Run best;
  std::uint64_t large_enough = some_ >> class_of(bytes) << class_of(bytes);
  for (; best.first < 0; large_enough &= large_enough - 1) {
    for (const Run& run : runs_[std::countr_zero(large_enough)]) {
      if (run.bytes < bytes) continue;
      const bool shorter =
          run.bytes != best.bytes ? run.bytes < best.bytes : run.offset < best.offset;
      if (best.first < 0 || shorter) best = run;
    }
  }
  return best.first;
}

void FreeList::add_run(Lot first, Lot last) {
  const std::int64_t bytes = bytes_of_run(first, last);
  std::vector<Run>& runs = runs_[class_of(bytes)];
  pieces_[first].other_end = last;
  pieces_[last].other_end = first;
  pieces_[first].place = static_cast<std::int32_t>(runs.size());
  runs.push_back({bytes, pieces_[first].offset, first});
  some_ |= std::uint64_t{1} << class_of(bytes);
}

void FreeList::remove_run(Lot first, Lot last) {
  const int size_class = class_of(bytes_of_run(first, last));
  std::vector<Run>& runs = runs_[size_class];
  const std::int32_t place = pieces_[first].place;
  runs[to_size(place)] = runs.back();
  pieces_[runs.back().first].place = place;
  runs.pop_back();
  if (runs.empty()) some_ &= ~(std::uint64_t{1} << size_class);
}

FreeList::Lot FreeList::take(std::int64_t bytes, std::vector<Tenant>* former) {
  if (bytes <= 0) return kNothing;
  bytes = round_up(bytes, kAlignment);
  Lot at = shortest_run(bytes);
  const Lot last = pieces_[at].other_end;
  remove_run(at, last);
  const Lot lot = new_piece();
  const Lot before = pieces_[at].before;
  const std::int64_t offset = pieces_[at].offset;
  bool rest = true;  // of the run
  for (std::int64_t missing = bytes; missing > 0 && rest;) {
    Piece& piece = pieces_[at];
    if (former != nullptr && piece.last != kNobody) former->push_back(piece.last);
    const std::int64_t taken = std::min(missing, piece.bytes);
    missing -= taken;
    piece.offset += taken;
    piece.bytes -= taken;
    if (piece.bytes > 0) break;
    unused_.push_back(at);
    rest = at != last;
    at = piece.behind;
  }
  pieces_[lot] = {offset, bytes, before, at, kTaken, kNobody, 0};
  pieces_[at].before = lot;
  if (before >= 0) pieces_[before].behind = lot;
  if (rest) add_run(at, last);
  high_water_ = std::max(high_water_, offset + bytes);
  return lot;
}

void FreeList::give_back(Lot lot, Tenant tenant) {
  if (lot == kNothing) return;
  const Lot before = pieces_[lot].before, behind = pieces_[lot].behind;
  pieces_[lot].last = tenant;
  Lot first = lot, last = lot;
  if (before >= 0 && pieces_[before].free()) {
    first = pieces_[before].other_end;
    remove_run(first, before);
  }
  if (pieces_[behind].free()) {
    last = pieces_[behind].other_end;
    remove_run(behind, last);
  }
  add_run(first, last);
}

}  // namespace lockstep
