#include "core/trace/spans.hpp"

#include <algorithm>
#include <utility>

#include "core/base/thread_team.hpp"

namespace lockstep {

/// What a run adds to begins.
struct Spans::Waits {
  std::vector<std::uint64_t> waited;  // as in Block, from the run's first span on
  std::vector<SimTime> begins;
};

Spans::Spans(std::initializer_list<Span> spans) {
  for (const Span& span : spans) push_back(span);
}

Spans::Spans(const std::vector<Span>& spans) {
  reserve(spans.size());
  for (const Span& span : spans) push_back(span);
}

void Spans::reserve(std::size_t spans) {
  blocks_.reserve(spans / kBlock + 1);
  ops_.reserve(spans);
  times_.reserve(spans);
}

void Spans::push_back(const Span& span) {
  const std::size_t i = size();
  // A run with a list that others have, too, does not go on.
  const bool goes_on = !runs_.empty() && runs_.back().step == span.step &&
                       runs_.back().rank == span.rank &&
                       runs_.back().ops + runs_.back().size() == ops_.size();
  if (!goes_on) runs_.push_back({span.step, span.rank, i, i, ops_.size()});
  if (i % kBlock == 0) {
    blocks_.push_back({0, static_cast<std::uint32_t>(begins_.size()),
                       static_cast<std::uint32_t>(runs_.size() - 1)});
  }
  ++runs_.back().last;
  ops_.push_back(span.op);
  times_.push_back({span.active, span.end});
  if (span.begin == span.active) return;
  blocks_.back().waited |= std::uint64_t{1} << i % kBlock;
  begins_.push_back(span.begin);
}

std::size_t Spans::add_ops(std::vector<OpId> ops) {
  if (ops_.empty()) {
    ops_ = std::move(ops);
    return 0;
  }
  ops_.insert(ops_.end(), ops.begin(), ops.end());
  return ops_.size() - ops.size();
}

Spans::Waits Spans::waits_of(const Run& run, const FindBegins& find_begins) const {
  std::vector<SimTime> begins(run.size());
  find_begins(run, begins);
  const std::span<const ActiveTime> own = times(run);
  Waits waits;
  waits.waited.resize(run.size() / kBlock + 1);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    if (begins[i] == own[i].active) continue;
    waits.waited[i / kBlock] |= std::uint64_t{1} << i % kBlock;
    waits.begins.push_back(begins[i]);
  }
  return waits;
}

void Spans::add(const Run& run, const Waits& waits) {
  const std::size_t shift = run.first % kBlock;
  std::size_t block = run.first / kBlock;
  for (const std::uint64_t waited : waits.waited) {
    if (waited != 0) blocks_[block].waited |= waited << shift;
    ++block;
    if (shift > 0 && waited >> (kBlock - shift) != 0) {
      blocks_[block].waited |= waited >> (kBlock - shift);
    }
  }
  begins_.insert(begins_.end(), waits.begins.begin(), waits.begins.end());
}

void Spans::append(std::vector<Run> runs, Column<ActiveTime> times, const FindBegins& find_begins) {
  const std::size_t before = size(), first = runs_.size();
  runs_.reserve(runs_.size() + runs.size());
  for (Run& run : runs) {
    if (run.size() == 0) continue;
    run.first += before;
    run.last += before;
    while (blocks_.size() * kBlock < run.last) {
      blocks_.push_back({0, 0, static_cast<std::uint32_t>(runs_.size())});
    }
    runs_.push_back(run);
  }
  if (before == 0) {
    times_ = std::move(times);
  } else {
    times_.insert(times_.end(), times.begin(), times.end());
  }
  // So few at a time that what they add is in a cache when it is added.
  ThreadTeam team(threads_for(size() - before));
  std::vector<Waits> waits(4 * to_size(team.size()));
  for (std::size_t next = first; next < runs_.size(); next += waits.size()) {
    const std::size_t count = std::min(waits.size(), runs_.size() - next);
    team.each(count, [&](std::size_t i) { waits[i] = waits_of(runs_[next + i], find_begins); });
    for (std::size_t i = 0; i < count; ++i) add(runs_[next + i], waits[i]);
  }
  for (std::size_t block = before / kBlock + 1; block < blocks_.size(); ++block) {
    const Block& last = blocks_[block - 1];
    blocks_[block].begins = last.begins + static_cast<std::uint32_t>(std::popcount(last.waited));
  }
}

bool Spans::operator==(const Spans& other) const {
  return size() == other.size() && std::equal(begin(), end(), other.begin());
}

std::span<const Spans::Run> Spans::of_step(std::int32_t step) const {
  const auto first = std::ranges::lower_bound(runs_, step, {}, &Run::step);
  return {first, std::ranges::upper_bound(runs_, step, {}, &Run::step)};
}

SpanRange Spans::range(std::span<const Run> runs) const {
  if (runs.empty()) return {*this, 0, 0};
  return {*this, runs.front().first, runs.back().last - runs.front().first};
}

SpanRange Spans::range(std::int32_t step, Rank rank) const {
  const std::span<const Run> runs = of_step(step);
  const auto found = std::ranges::lower_bound(runs, rank, {}, &Run::rank);
  if (found == runs.end() || found->rank != rank) return {*this, 0, 0};
  return range(*found);
}

}  // namespace lockstep
