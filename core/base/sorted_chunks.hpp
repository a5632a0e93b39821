// SortedChunks: a sorted sequence that stays fast when elements are inserted and removed anywhere.
// Its elements lie in chunks of neighbours, so that searching touches few cache lines, and an
// insertion moves few elements, however many there are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace lockstep {

template <class T>
class SortedChunks {
 public:
  /// Where an element is, or the end. Inserting and removing changes the places of others.
  struct Place {
    std::size_t chunk = 0, index = 0;
  };

  bool valid(Place at) const {
    return at.chunk < chunks_.size() && at.index < chunks_[at.chunk].size();
  }
  const T& operator[](Place at) const { return chunks_[at.chunk][at.index]; }
  /// A change must leave the element between its neighbours.
  T& operator[](Place at) { return chunks_[at.chunk][at.index]; }
  Place next(Place at) const {
    if (++at.index < chunks_[at.chunk].size() || at.chunk + 1 == chunks_.size()) return at;
    return {at.chunk + 1, 0};
  }

  /// The first element for which before(element) is false, or the end. It must be true for a first
  /// part of the elements and false for the others.
  template <class Before>
  Place find(Before&& before) const {
    if (chunks_.empty()) return {};
    std::size_t chunk = 0;
    if (chunks_.size() > 1) {
      const auto ends_before = [&](const std::vector<T>& those) { return before(those.back()); };
      const auto at = std::partition_point(chunks_.begin(), chunks_.end() - 1, ends_before);
      chunk = static_cast<std::size_t>(at - chunks_.begin());
    }
    const std::vector<T>& elements = chunks_[chunk];
    const auto at = std::partition_point(elements.begin(), elements.end(), before);
    return {chunk, static_cast<std::size_t>(at - elements.begin())};
  }

  /// Inserts an element before the place. Returns where it is now.
  Place insert(Place at, T element) {
    if (chunks_.empty()) chunks_.emplace_back();
    if (chunks_[at.chunk].size() == kMost) {
      split(at.chunk);
      if (at.index > kMost / 2) at = {at.chunk + 1, at.index - kMost / 2};
    }
    std::vector<T>& elements = chunks_[at.chunk];
    elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(at.index), std::move(element));
    return at;
  }

  /// Removes an element. Returns the place of the one behind it.
  Place remove(Place at) {
    std::vector<T>& elements = chunks_[at.chunk];
    elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at.index));
    const bool last = at.chunk + 1 == chunks_.size();
    if (elements.empty() && chunks_.size() > 1) {
      chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(at.chunk));
      return last ? Place{at.chunk - 1, chunks_[at.chunk - 1].size()} : Place{at.chunk, 0};
    }
    return at.index < elements.size() || last ? at : Place{at.chunk + 1, 0};
  }

  /// Keeps some of its memory for new elements.
  void clear() {
    if (chunks_.empty()) return;
    chunks_.resize(1);
    chunks_[0].clear();
  }

 private:
  static constexpr std::size_t kMost = 64;  // elements of a chunk

  void split(std::size_t chunk) {
    std::vector<T>& full = chunks_[chunk];
    const auto middle = full.begin() + kMost / 2;
    std::vector<T> second(std::make_move_iterator(middle), std::make_move_iterator(full.end()));
    full.erase(middle, full.end());
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk) + 1, std::move(second));
  }

  std::vector<std::vector<T>> chunks_;  // none is empty, except the only one
};

}  // namespace lockstep
