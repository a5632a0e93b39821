// EventHeap: the simulator's queue, ordered by (time, stream of rank, kind).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::sim {

struct SimEvent {
  std::int64_t time = 0;  // ps
  std::uint32_t key = 0;  // 2 × cell + (1 for an arrival)
  /// Of an end: that of the cell's activity; an event with an older version is stale. Of an
  /// arrival: 0 if a message's last byte arrives, 1 if a rank arrives at a collective.
  std::uint32_t version = 0;
  friend bool operator<(const SimEvent& a, const SimEvent& b) {
    return a.time != b.time ? a.time < b.time : a.key < b.key;
  }
};

/// A min-heap in which a node has four children: half as deep as a binary one. Equal events may be
/// popped in any order.
class EventHeap {
 public:
  bool empty() const { return events_.empty(); }
  const SimEvent& top() const { return events_.front(); }  // requires !empty()
  /// All events; the first is the top, and those that come soon after it are near the beginning.
  const std::vector<SimEvent>& events() const { return events_; }
  void clear() { events_.clear(); }
  void push(SimEvent event) {
    std::size_t i = events_.size();
    events_.push_back(event);
    while (i > 0) {
      const std::size_t parent = (i - 1) / kChildren;
      if (!(event < events_[parent])) break;
      events_[i] = events_[parent];
      i = parent;
    }
    events_[i] = event;
  }
  SimEvent pop() {  // requires !empty()
    const SimEvent top = events_.front();
    const SimEvent last = events_.back();
    events_.pop_back();
    const std::size_t n = events_.size();
    std::size_t i = 0;
    for (std::size_t first = 1; first < n; first = kChildren * i + 1) {
      std::size_t least = first;
      for (std::size_t c = first + 1; c < std::min(first + kChildren, n); ++c) {
        if (events_[c] < events_[least]) least = c;
      }
      if (!(events_[least] < last)) break;
      events_[i] = events_[least];
      i = least;
    }
    if (n > 0) events_[i] = last;
    return top;
  }

 private:
  static constexpr std::size_t kChildren = 4;
  std::vector<SimEvent> events_;
};

}  // namespace lockstep::sim
