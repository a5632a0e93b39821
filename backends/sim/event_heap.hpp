// EventHeap: the simulator's queue, ordered by (time, stream of rank, kind).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lockstep::sim {

struct SimEvent {
  std::int64_t time = 0;   // ps, not negative
  std::uint64_t rest = 0;  // key() and version(), so that events compare as two numbers
  constexpr SimEvent() = default;
  constexpr SimEvent(std::int64_t at, std::uint32_t key, std::uint32_t version)
      : time(at), rest(std::uint64_t{key} << 32 | version) {}
  /// 2 × cell + (1 for an arrival).
  std::uint32_t key() const { return static_cast<std::uint32_t>(rest >> 32); }
  /// Of an end: that of the cell's activity; an event with an older version is stale. Of an
  /// arrival: 0 if a message's last byte arrives, 1 if a rank arrives at a collective, 2 if its
  /// data loader has samples.
  std::uint32_t version() const { return static_cast<std::uint32_t>(rest); }
  friend bool operator<(const SimEvent& a, const SimEvent& b) {
    return a.time < b.time || (a.time == b.time && a.rest < b.rest);
  }
};

/// A min-heap in which a node has four children: half as deep as a binary one. They share a line of
/// the cache, and behind the last event stand events that come after all others, so that the least
/// of four is found without asking how many there are. Equal events may be popped in any order.
class EventHeap {
 public:
  bool empty() const { return count_ == 0; }
  const SimEvent& top() const { return at(0); }  // requires !empty()
  std::size_t size() const { return count_; }
  /// One of all events; the first is the top, and those that come soon after it are near the
  /// beginning.
  const SimEvent& operator[](std::size_t i) const { return at(i); }
  void clear() {
    lines_.clear();
    count_ = 0;
  }
  void push(SimEvent event) {
    if (line(count_) == lines_.size()) lines_.emplace_back();
    std::size_t i = count_++;
    while (i > 0) {
      const std::size_t parent = (i - 1) / kChildren;
      if (!(event < at(parent))) break;
      at(i) = at(parent);
      i = parent;
    }
    at(i) = event;
  }
  SimEvent pop() {  // requires !empty()
    const SimEvent top = at(0);
    const SimEvent last = at(--count_);
    at(count_) = kNever;
    if (count_ == 0) return top;
    std::size_t i = 0;
    while (kChildren * i + 1 < count_) {
      const Line& child = children(i);
      const std::size_t a = child[1] < child[0] ? 1 : 0;
      const std::size_t b = child[3] < child[2] ? 3 : 2;
      const std::size_t least = child[b] < child[a] ? b : a;
      if (!(child[least] < last)) break;
      at(i) = child[least];
      i = kChildren * i + 1 + least;
    }
    at(i) = last;
    return top;
  }

 private:
  static constexpr std::size_t kChildren = 4;
  static constexpr SimEvent kNever{std::numeric_limits<std::int64_t>::max(), ~0u, ~0u};

  struct alignas(kChildren * sizeof(SimEvent)) Line {
    std::array<SimEvent, kChildren> events = {kNever, kNever, kNever, kNever};
    const SimEvent& operator[](std::size_t i) const { return events[i]; }
    SimEvent& operator[](std::size_t i) { return events[i]; }
  };

  const Line& children(std::size_t i) const { return lines_[i + 1]; }
  const SimEvent& at(std::size_t i) const { return lines_[line(i)][place(i)]; }
  SimEvent& at(std::size_t i) { return lines_[line(i)][place(i)]; }
  // The top is the last of the first line, so that the second one has its children.
  static std::size_t line(std::size_t i) { return (i + kChildren - 1) / kChildren; }
  static std::size_t place(std::size_t i) { return (i + kChildren - 1) % kChildren; }

  std::vector<Line> lines_;
  std::size_t count_ = 0;
};

}  // namespace lockstep::sim
