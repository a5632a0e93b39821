#include "gui/model/run/lanes.hpp"

#include <algorithm>
#include <utility>

#include "core/base/index_vector.hpp"

namespace lockstep::gui {
namespace {

constexpr std::size_t kFan = 16;

}  // namespace

LaneSegment::LaneSegment(const SpanRange& spans, const Lanes& lanes) : spans_(spans) {
  IndexArray<Look, int, kNumLooks> place;  // in looks_, of those that occur
  for (int& at : place) at = -1;
  look_of_span_.reserve(spans.size());
  for (const Span& span : spans) {
    const Look look = lanes.look(span);
    look_of_span_.push_back(look);
    if (place[look] >= 0) continue;
    place[look] = static_cast<int>(looks_.size());
    looks_.push_back(look);
  }
  before_.resize(looks_.size());
  std::vector<std::int64_t> sums(looks_.size(), 0);
  const auto keep = [&] {
    for (std::size_t k = 0; k < sums.size(); ++k) before_[k].push_back(sums[k]);
  };
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (i % kFan == 0) keep();
    sums[to_size(place[look_of_span_[i]])] += (spans[i].end - spans[i].begin).count();
  }
  if (spans.size() % kFan == 0) keep();
  if (looks_.size() == 1) look_of_span_ = {};
}

std::size_t LaneSegment::first_ending_after(SimTime t) const {
  std::size_t low = 0, high = spans_.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    spans_[middle].end <= t ? low = middle + 1 : high = middle;
  }
  return low;
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

LookMix LaneSegment::mix(std::size_t from, std::size_t to) const {
  IndexArray<Look, std::int64_t, kNumLooks> time{};
  if (to - from <= 2 * kFan) {
    std::int64_t sum = 0;
    for (std::size_t i = from; i < to; ++i) {
      const std::int64_t own = (spans_[i].end - spans_[i].begin).count();
      sum += own;
      if (!look_of_span_.empty()) time[look_of_span_[i]] += own;
    }
    if (look_of_span_.empty()) time[looks_.front()] = sum;
  } else {
    const std::size_t first = (from + kFan - 1) / kFan, last = to / kFan;
    for (std::size_t k = 0; k < looks_.size(); ++k) {
      time[looks_[k]] = before_[k][last] - before_[k][first];
    }
    from = first * kFan;
    to = last * kFan;
  }
  LookMix mix;
  std::int64_t most = -1, second = 0, sum = 0;
  for (const Look look : looks_) {
    const std::int64_t own = time[look];
    sum += own;
    if (own > most || (own == most && look < mix.most)) {
      second = std::exchange(most, own);
      mix.second = std::exchange(mix.most, look);
    } else if (own > second) {
      second = own;
      mix.second = look;
    }
  }
  second = std::max<std::int64_t>(second, 0);
  if (most + second > 0) {
    mix.share_of_second = static_cast<double>(second) / static_cast<double>(most + second);
  }
  const std::int64_t whole = (spans_[to - 1].end - spans_[from].begin).count();
  if (whole > 0) mix.busy = static_cast<double>(sum) / static_cast<double>(whole);
  return mix;
}

std::size_t Lane::count() const {
  std::size_t sum = 0;
  for (const LaneSegment& segment : segments) sum += segment.spans().size();
  return sum;
}

Lanes::Lanes(const Trace& trace) : trace_(&trace), spans_(trace.spans.size()) {
  for (const std::string& name : trace.names) look_of_name_.push_back(look_of_kind(name));
  // Our own programs say what an op is for, a trace from elsewhere its kernel's name.
  if (trace.program_hash.empty() && trace.backend != "sim") {
    for (const std::string& name : trace.names) look_of_kernel_.push_back(look_of_kernel(name));
  }
  const std::size_t world = trace.role_of_rank.size();
  const std::size_t streams = trace.streams.size();
  std::vector<std::vector<LaneSegment>> segments(world * streams);
  std::vector<SimTime> computing(world * streams);
  for (const Spans::Run& run : trace.spans.runs()) {
    for (std::size_t i = run.first; i < run.last;) {
      const int stream = op(trace.spans[i]).stream;
      const std::size_t lane = to_size(run.rank) * streams + to_size(stream);
      std::size_t j = i;
      for (; j < run.last; ++j) {
        const Span& s = trace.spans[j];
        if (op(s).stream != stream) break;
        if (look(s) <= Look::OtherCompute) computing[lane] += s.end - s.active;
      }
      const LaneSegment& segment =
          segments[lane].emplace_back(SpanRange(trace.spans, i, j - i), *this);
      if (steps_.empty() || steps_.back().step != run.step) {
        steps_.push_back({run.step, segment.begin(), segment.end()});
      }
      steps_.back().begin = std::min(steps_.back().begin, segment.begin());
      steps_.back().end = std::max(steps_.back().end, segment.end());
      i = j;
    }
  }
  for (const StepWindow& step : steps_) {
    begin_ = &step == steps_.data() ? step.begin : std::min(begin_, step.begin);
    end_ = &step == steps_.data() ? step.end : std::max(end_, step.end);
  }
  if (trace.spans.empty() && !trace.memory.empty()) {  // a trace that tells of memory only
    const auto earlier = [](const MemorySample& a, const MemorySample& b) {
      return a.time < b.time;
    };
    const auto [first, last] =
        std::minmax_element(trace.memory.begin(), trace.memory.end(), earlier);
    begin_ = first->time;
    end_ = last->time;
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

Look Lanes::look(const Span& span) const { return look_of(op(span)); }

Look Lanes::look_of(const TraceOp& op) const {
  const Look look = look_of_name_[to_size(op.kind)];
  if (look_of_kernel_.empty() || look > Look::OtherCompute) return look;
  return look_of_kernel_[to_size(op.name)];
}

TraceOp Lanes::op(const Span& span) const {
  return trace_->roles[trace_->role_of_rank[span.rank]].ops[span.op];
}

}  // namespace lockstep::gui
