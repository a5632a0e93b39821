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

SortedChunks<FreeList::Run>::Place FreeList::place_of(const Run& run) const {
  return runs_.find([&](const Run& r) {
    return r.bytes != run.bytes ? r.bytes < run.bytes : r.offset < run.offset;
  });
}

void FreeList::add_run(Lot first, Lot last) {
  pieces_[first].other_end = last;
  pieces_[last].other_end = first;
  const Run run = run_of(first, last);
  runs_.insert(place_of(run), run);
}

void FreeList::remove_run(Lot first, Lot last) { runs_.remove(place_of(run_of(first, last))); }

FreeList::Lot FreeList::take(std::int64_t bytes, std::vector<Tenant>* former) {
  if (bytes <= 0) return kNothing;
  bytes = round_up(bytes, kAlignment);
  Lot at = runs_[runs_.find([&](const Run& r) { return r.bytes < bytes; })].first;
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
  pieces_[lot] = {offset, bytes, before, at, kTaken, kNobody};
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
