// Spans: what every op of every rank did, in 20 bytes each, or 28 if it waited.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

#include "core/base/column.hpp"
#include "core/base/ids.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/units.hpp"

namespace lockstep {

/// What one op of one rank did in one step. begin <= active <= end.
struct Span {
  Rank rank = 0;
  OpId op;  // index into TraceRole::ops of the rank's role
  std::int32_t step = 0;
  SimTime begin{};   // reached the front of its stream, dependencies met
  SimTime active{};  // all peers have arrived: transfer or arithmetic begins
  SimTime end{};
  bool operator==(const Span&) const = default;
};

/// The part of a span's times that is no consequence of other spans' in a simulation.
struct ActiveTime {
  SimTime active{}, end{};
};

class SpanRange;

/// A list of spans, which are put together when they are asked for. Those of one rank in one step,
/// a run, follow each other, and say rank and step once. Runs of the same ops in one order may have
/// one list of them. Most spans are active when they begin, so that the begins of others alone are
/// kept. There may be 2^32 spans; 64 of them, and a run, take 16 and 32 bytes in addition.
class Spans {
 public:
  struct Run {
    std::int32_t step = 0;
    Rank rank = 0;
    std::size_t first = 0, last = 0;  // the numbers of its spans: [first, last)
    std::size_t ops = 0;              // where the list of its ops begins; see add_ops()
    std::size_t size() const { return last - first; }
  };
  class Iterator;

  Spans() = default;
  Spans(std::initializer_list<Span> spans);
  explicit Spans(const std::vector<Span>& spans);

  void reserve(std::size_t spans);
  void push_back(const Span& span);
  /// Adds lists of ops and returns where they begin, for Run::ops.
  std::size_t add_ops(std::vector<OpId> ops);
  /// Appends runs, whose spans are numbered from 0 and have `times`. find_begins(run, begins) gives
  /// the begins of a run as it is in the list then. It is called on several threads at once.
  using FindBegins = std::function<void(const Run& run, std::span<SimTime> begins)>;
  void append(std::vector<Run> runs, Column<ActiveTime> times, const FindBegins& find_begins);

  std::size_t size() const { return times_.size(); }
  bool empty() const { return times_.empty(); }
  /// Inline, so that nothing is looked up that the caller does not ask for.
  [[gnu::always_inline]] Span operator[](std::size_t i) const { return in_run(run_of(i), i); }
  Span front() const { return (*this)[0]; }
  Span back() const { return (*this)[size() - 1]; }
  Iterator begin() const;
  Iterator end() const;
  bool operator==(const Spans& other) const;

  const std::vector<Run>& runs() const { return runs_; }
  /// The run that has span number i. It is found among those of 64 spans.
  const Run& run_of(std::size_t i) const {
    const Run* run = runs_.data() + blocks_[i / kBlock].run;
    while (run->last <= i) ++run;
    return *run;
  }
  std::span<const OpId> ops(const Run& run) const { return {ops_.data() + run.ops, run.size()}; }
  std::span<const ActiveTime> times(const Run& run) const {
    return {times_.data() + run.first, run.size()};
  }
  /// The rest requires that spans are sorted by (step, rank), as those of a trace are.
  std::span<const Run> of_step(std::int32_t step) const;
  std::span<const Run> of_first_step() const { return of_step(empty() ? 0 : runs_.front().step); }
  SpanRange range(std::span<const Run> runs) const;
  SpanRange range(const Run& run) const;
  /// The spans of a rank in a step; none if it has none of its own.
  SpanRange range(std::int32_t step, Rank rank) const;

 private:
  static constexpr std::size_t kBlock = 64;
  struct Block {
    std::uint64_t waited = 0;  // by span, from the lowest bit on: it began before it was active
    std::uint32_t begins = 0;  // into begins_: of the first that waited
    std::uint32_t run = 0;     // into runs_: that of the first
  };
  struct Waits;
  [[gnu::always_inline]] Span in_run(const Run& run, std::size_t i) const {
    return {run.rank,     ops_[run.ops + (i - run.first)], run.step, begin_of(i), times_[i].active,
            times_[i].end};
  }
  [[gnu::always_inline]] SimTime begin_of(std::size_t i) const {
    const Block& block = blocks_[i / kBlock];
    const std::uint64_t bit = std::uint64_t{1} << i % kBlock;
    if ((block.waited & bit) == 0) return times_[i].active;
    return begins_[block.begins + to_size(std::popcount(block.waited & (bit - 1)))];
  }
  Waits waits_of(const Run& run, const FindBegins& find_begins) const;
  void add(const Run& run, const Waits& waits);

  std::vector<Run> runs_;
  std::vector<Block> blocks_;    // of spans [0, 64), [64, 128), …
  std::vector<OpId> ops_;        // lists of ops, one behind the other
  std::vector<SimTime> begins_;  // of those that waited
  Column<ActiveTime> times_;
};

class Spans::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Span;
  using difference_type = std::ptrdiff_t;
  using pointer = const Span*;
  using reference = Span;

  Iterator() = default;
  Iterator(const Spans& spans, std::size_t i)
      : spans_(&spans), i_(i), run_(i < spans.size() ? &spans.run_of(i) : nullptr) {}
  Span operator*() const { return spans_->in_run(*run_, i_); }
  Iterator& operator++() {
    if (++i_ == run_->last) ++run_;
    return *this;
  }
  Iterator operator++(int) {
    Iterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Iterator& other) const { return i_ == other.i_; }

 private:
  const Spans* spans_ = nullptr;
  std::size_t i_ = 0;
  const Run* run_ = nullptr;
};

/// Some spans that follow each other in a list, which must outlive it.
class SpanRange {
 public:
  SpanRange() = default;
  SpanRange(const Spans& spans, std::size_t first, std::size_t count)
      : spans_(&spans), first_(first), count_(count) {}

  std::size_t first() const { return first_; }  // the number of its first span in the whole list
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  [[gnu::always_inline]] Span operator[](std::size_t i) const { return (*spans_)[first_ + i]; }
  Span front() const { return (*this)[0]; }
  Span back() const { return (*this)[count_ - 1]; }
  SpanRange subspan(std::size_t from, std::size_t count) const {
    return {*spans_, first_ + from, count};
  }
  Spans::Iterator begin() const { return empty() ? end() : Spans::Iterator(*spans_, first_); }
  Spans::Iterator end() const {
    return empty() ? Spans::Iterator() : Spans::Iterator(*spans_, first_ + count_);
  }

 private:
  const Spans* spans_ = nullptr;
  std::size_t first_ = 0, count_ = 0;
};

inline Spans::Iterator Spans::begin() const { return {*this, 0}; }
inline Spans::Iterator Spans::end() const { return {*this, size()}; }
inline SpanRange Spans::range(const Run& run) const { return {*this, run.first, run.size()}; }

}  // namespace lockstep
