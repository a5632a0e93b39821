#include "gui/model/run/lanes.hpp"

#include <algorithm>
#include <utility>

#include "core/base/index_vector.hpp"

namespace lockstep::gui {
namespace {

constexpr std::size_t kFan = 16;

}  // namespace

LaneSegment::LaneSegment(std::span<const Span> spans) : spans_(spans) {
  for (std::size_t whole = spans_.size() / kFan; whole > 0; whole /= kFan) {
    std::vector<Longest> level(whole);
    for (std::size_t i = 0; i < whole * kFan; ++i) {
      const Longest below =
          levels_.empty() ? Longest{duration(i), static_cast<std::uint32_t>(i)} : levels_.back()[i];
      Longest& best = level[i / kFan];
      if (below.duration > best.duration) best = below;
    }
    levels_.push_back(std::move(level));
  }
}

std::size_t LaneSegment::first_ending_after(SimTime t) const {
  const auto it = std::upper_bound(spans_.begin(), spans_.end(), t,
                                   [](SimTime time, const Span& s) { return time < s.end; });
  return to_size(it - spans_.begin());
}

std::size_t LaneSegment::first_beginning_at(SimTime t, std::size_t from, std::size_t guess) const {
  // Gallop away from the guess until the answer lies in [low, high], then halve.
  const auto before = [&](std::size_t i) { return spans_[i].begin < t; };
  std::size_t low = from, high = spans_.size();
  const std::size_t start = std::min(from + guess, spans_.size());
  if (start < spans_.size() && before(start)) {
    low = start + 1;
    for (std::size_t step = 1; low + step < high; step *= 2) {
      if (!before(low + step)) {
        high = low + step;
        break;
      }
      low += step + 1;
    }
  } else {
    high = start;
    for (std::size_t step = 1; high > from + step; step *= 2) {
      if (before(high - step)) {
        low = high - step + 1;
        break;
      }
      high -= step;
    }
  }
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (before(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::size_t LaneSegment::longest(std::size_t from, std::size_t to) const {
  Longest best;
  if (to - from <= 2 * kFan) {
    for (std::size_t i = from; i < to; ++i) {
      if (const float d = duration(i); d > best.duration) best = {d, static_cast<std::uint32_t>(i)};
    }
    return best.index;
  }
  const auto consider = [&](const Longest& other) {
    if (other.duration > best.duration ||
        (other.duration == best.duration && other.index < best.index)) {
      best = other;
    }
  };
  from = (from + kFan - 1) / kFan;  // from here on counted in groups of 16, then of 256, …
  to = to / kFan;
  for (std::size_t k = 0;; ++k) {
    const std::size_t up = (from + kFan - 1) / kFan, down = to / kFan;
    const bool last = k + 1 == levels_.size() || up >= down;
    const std::size_t left = last ? to : up * kFan, right = last ? to : down * kFan;
    for (std::size_t i = from; i < left; ++i) consider(levels_[k][i]);
    for (std::size_t i = right; i < to; ++i) consider(levels_[k][i]);
    if (last) return best.index;
    from = up;
    to = down;
  }
}

std::size_t Lane::count() const {
  std::size_t sum = 0;
  for (const LaneSegment& segment : segments) sum += segment.spans().size();
  return sum;
}

Lanes::Lanes(const Trace& trace) : trace_(&trace), spans_(trace.spans.size()) {
  for (const std::string& name : trace.names) look_of_name_.push_back(look_of_kind(name));
  const std::size_t world = trace.role_of_rank.size();
  const std::size_t streams = trace.streams.size();
  std::vector<std::vector<LaneSegment>> segments(world * streams);
  std::vector<SimTime> computing(world * streams);
  for (std::size_t i = 0; i < trace.spans.size();) {
    const Span& first = trace.spans[i];
    const int stream = op(first).stream;
    const std::size_t lane = to_size(first.rank) * streams + to_size(stream);
    std::size_t j = i;
    for (; j < trace.spans.size(); ++j) {
      const Span& s = trace.spans[j];
      if (s.step != first.step || s.rank != first.rank || op(s).stream != stream) break;
      if (look(s) <= Look::OtherCompute) computing[lane] += s.end - s.active;
    }
    const LaneSegment& segment =
        segments[lane].emplace_back(std::span<const Span>(trace.spans.data() + i, j - i));
    if (steps_.empty() || steps_.back().step != first.step) {
      steps_.push_back({first.step, segment.begin(), segment.end()});
    }
    steps_.back().begin = std::min(steps_.back().begin, segment.begin());
    steps_.back().end = std::max(steps_.back().end, segment.end());
    i = j;
  }
  for (const StepWindow& step : steps_) {
    begin_ = &step == steps_.data() ? step.begin : std::min(begin_, step.begin);
    end_ = &step == steps_.data() ? step.end : std::max(end_, step.end);
  }
  for (std::size_t rank = 0; rank < world; ++rank) {
    first_of_rank_.push_back(lanes_.size());
    for (std::size_t stream = 0; stream < streams; ++stream) {
      const std::size_t lane = rank * streams + stream;
      if (segments[lane].empty()) continue;
      lanes_.push_back({static_cast<Rank>(rank), static_cast<int>(stream),
                        std::move(segments[lane]), computing[lane]});
    }
  }
  first_of_rank_.push_back(lanes_.size());
}

std::span<const Lane> Lanes::of_rank(Rank rank) const {
  const std::size_t own = to_size(trace_->same_as[rank]);
  const std::size_t first = first_of_rank_[own];
  return {lanes_.data() + first, first_of_rank_[own + 1] - first};
}

const Lane* Lanes::find(Rank rank, int stream) const {
  for (const Lane& lane : of_rank(rank)) {
    if (lane.stream == stream) return &lane;
  }
  return nullptr;
}

const Lane* Lanes::main_of_rank(Rank rank) const {
  const Lane* best = nullptr;
  std::pair<SimTime, std::size_t> most{};
  for (const Lane& lane : of_rank(rank)) {
    if (trace_->streams[lane.stream] == "compute") return &lane;
    const bool host = look(lane.segments.front().spans().front()) == Look::Host;
    const std::pair weight{lane.computing, host ? 1 : 1 + lane.count()};
    if (weight > most) {
      most = weight;
      best = &lane;
    }
  }
  return best;
}

Look Lanes::look(const Span& span) const { return look_of_name_[op(span).kind]; }

const TraceOp& Lanes::op(const Span& span) const {
  return trace_->roles[trace_->role_of_rank[span.rank]].ops[span.op];
}

}  // namespace lockstep::gui
