// EventHeap: the simulator's queue, ordered by (time, stream of rank, kind).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::sim {

struct SimEvent {
  std::int64_t time = 0;      // ps
  std::uint32_t key = 0;      // 2 × cell + (1 for the arrival of a message)
  std::uint32_t version = 0;  // of the cell's activity; an event with an older version is stale
  friend bool operator<(const SimEvent& a, const SimEvent& b) {
    return a.time != b.time ? a.time < b.time : a.key < b.key;
  }
};

/// A binary min-heap. Equal events may be popped in any order.
class EventHeap {
 public:
  bool empty() const { return events_.empty(); }
  void push(SimEvent event) {
    std::size_t i = events_.size();
    events_.push_back(event);
    while (i > 0) {
      const std::size_t parent = (i - 1) / 2;
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
    for (std::size_t child = 1; child < n; child = 2 * i + 1) {
      if (child + 1 < n && events_[child + 1] < events_[child]) ++child;
      if (!(events_[child] < last)) break;
      events_[i] = events_[child];
      i = child;
    }
    if (n > 0) events_[i] = last;
    return top;
  }

 private:
  std::vector<SimEvent> events_;
};

}  // namespace lockstep::sim
