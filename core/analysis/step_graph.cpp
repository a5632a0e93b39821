#include "core/analysis/step_graph.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// The channels of a role, and which of them its ops use.
struct RoleChannels {
  struct Channel {
    std::int32_t id = -1;
    OpClass side = OpClass::Collective;
    std::int32_t count = 0;  // one more than the largest sequence number
  };
  IndexVector<int, Channel> channels;
  std::vector<std::int32_t> of_form;  // by form of an op: into `channels`; -1: none
};

RoleChannels channels_of(const TraceRole& role,
                         const IndexVector<std::int32_t, OpClass>& kind_class) {
  RoleChannels result;
  std::map<std::int32_t, std::int32_t> known;
  for (const TraceOp& form : role.ops.forms()) {
    result.of_form.push_back(-1);
    if (form.channel < 0) continue;
    const auto [it, fresh] =
        known.try_emplace(form.channel, static_cast<std::int32_t>(result.channels.size()));
    if (fresh) result.channels.push_back({form.channel, kind_class[form.kind], 0});
    result.of_form.back() = it->second;
  }
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const std::int32_t used = result.of_form[role.ops.form(from_index<OpId>(i))];
    if (used < 0) continue;
    RoleChannels::Channel& channel = result.channels[used];
    channel.count = std::max(channel.count, role.ops[i].seq + 1);
  }
  return result;
}

/// Numbers the groups and pairs that meet on each channel ("places") and finds the place of each
/// rank's channels. For collectives, Trace::instances tells a rank's own group. For messages, the
/// n-th rank that sends on a channel meets the n-th that receives (core/run/trace_builder.hpp).
class MeetingPlaces {
 public:
  explicit MeetingPlaces(const Trace& trace) : trace_(trace) {}

  /// The place of each channel of the rank's role; -1: the rank meets nobody on it. Must be called
  /// in ascending order of ranks, since messages pair by order.
  std::vector<std::int32_t> of_rank(Rank rank, const RoleChannels& role) {
    std::vector<std::int32_t> places;
    for (const RoleChannels::Channel& channel : role.channels) {
      std::int32_t instance = -1;
      if (channel.count == 0) {
        // Its ops have no numbers.
      } else if (to_size(channel.id) < trace_.instances.size()) {
        instance = trace_.instances[channel.id][rank];
      } else if (channel.side == OpClass::SendRecv) {
        instance = 0;  // a pair has a channel of its own, and both ends have this class
      } else if (is_message(channel.side)) {
        instance = seen_[{channel.id, channel.side == OpClass::Recv}]++;
      }
      places.push_back(instance < 0 ? -1 : place({channel.id, instance}, channel.count));
    }
    return places;
  }

  /// For each place, the index of its first meeting; the last element is the number of meetings.
  std::vector<std::int32_t> first_meetings() const {
    IndexVector<int, std::int32_t> first = {0};
    for (const std::int32_t count : counts_) first.push_back(first.back() + count);
    return first;
  }

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;  // channel, instance
  std::int32_t place(const Key& key, std::int32_t count) {
    const auto [it, fresh] = places_.try_emplace(key, static_cast<std::int32_t>(counts_.size()));
    if (fresh) counts_.push_back(0);
    counts_[it->second] = std::max(counts_[it->second], count);
    return it->second;
  }

  const Trace& trace_;
  std::map<std::pair<std::int32_t, bool>, std::int32_t> seen_;
  std::map<Key, std::int32_t> places_;
  IndexVector<int, std::int32_t> counts_;  // meetings, by place
};

}  // namespace

std::vector<std::int32_t> traced_steps(const Trace& trace) {
  std::vector<std::int32_t> steps;
  for (const Spans::Run& run : trace.spans.runs()) {
    if (steps.empty() || steps.back() != run.step) steps.push_back(run.step);
  }
  return steps;
}

std::vector<int> stands_for(const Trace& trace) {
  IndexVector<Rank, int> count(trace.same_as.size(), 0);
  for (const Rank rank : trace.same_as) ++count[rank];
  return count;
}

StepGraph::StepGraph(const Trace& trace, std::int32_t step, const Program* program)
    : StepGraph(trace, step, program, nullptr) {}

StepGraph::StepGraph(const Trace& trace, std::int32_t step, const Program* program,
                     const StepIntervals& intervals)
    : StepGraph(trace, step, program, &intervals) {}

StepGraph::StepGraph(const Trace& trace, std::int32_t step, const Program* program,
                     const StepIntervals* intervals)
    : trace_(&trace),
      program_(program),
      runs_(trace.spans.of_step(step)),
      spans_(trace.spans.range(runs_)),
      devices_work_(program != nullptr) {
  for (const std::string& name : trace.names) kind_class_.push_back(op_class(name));
  const auto compute = std::find(trace.streams.begin(), trace.streams.end(), "compute");
  if (compute != trace.streams.end()) {
    compute_stream_ = static_cast<int>(compute - trace.streams.begin());
  }
  for (const TraceRole& role : trace.roles) {
    auto& facts = facts_.emplace_back();
    facts.reserve(role.ops.forms().size());
    for (const TraceOp& op : role.ops.forms()) {
      facts.push_back(
          {op.stream, kind_class_[op.kind], class_of(op), static_cast<Phase>(op.phase), op.kind});
    }
  }
  find_ranks();
  if (program_ == nullptr) {
    take_interval(step, intervals != nullptr ? *intervals : StepIntervals(trace));
  }
  index_spans();
  if (program_ == nullptr) index_ends();
}

SpanClass StepGraph::class_of(const TraceOp& op) const {
  const OpClass kind = kind_class_[op.kind];
  if (is_transfer(kind)) return SpanClass::Transfer;
  const bool computes =
      kind == OpClass::Compute && (compute_stream_ < 0 || op.stream == compute_stream_);
  return computes ? SpanClass::Compute : SpanClass::Other;
}

bool StepGraph::counts(SpanIndex i) const {
  return !devices_work_ || kind_class(i) != OpClass::Host;
}

bool StepGraph::is_receive(SpanIndex i) const { return kind_class(i) == OpClass::Recv; }

const std::string& StepGraph::name(SpanIndex i) const { return trace_->names[op(i).name]; }
const std::string& StepGraph::kind(SpanIndex i) const { return kind((*this)[i]); }
const std::string& StepGraph::kind(const Span& s) const { return trace_->names[op(s).kind]; }

std::span<const std::size_t> StepGraph::of_other_steps(Rank rank) const {
  return others_.empty() ? std::span<const std::size_t>() : others_[rank];
}

std::vector<Rank> StepGraph::own_ranks() const {
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < trace_->same_as.size(); ++r) {
    if (to_size(trace_->same_as[r]) == r) ranks.push_back(trace_->same_as[r]);
  }
  return ranks;
}

void StepGraph::find_ranks() {
  range_of_.resize(trace_->role_of_rank.size());
  for (const Spans::Run& run : runs_) {
    range_of_[run.rank] = {static_cast<SpanIndex>(run.first - spans_.first()),
                           static_cast<SpanIndex>(run.last - spans_.first())};
    ranks_.push_back(run.rank);
  }
}

void StepGraph::index_ops(const Spans::Run& run, const Spans::Run*& first_of_role) {
  const std::span<const OpId> ops = trace_->spans.ops(run);
  if (first_of_role != nullptr && std::ranges::equal(ops, trace_->spans.ops(*first_of_role))) {
    list_of_[run.rank] = list_of_[first_of_role->rank];
    return;
  }
  if (first_of_role == nullptr) first_of_role = &run;
  list_of_[run.rank] = static_cast<std::uint32_t>(by_op_.size());
  auto& places = by_op_.emplace_back();
  places.resize(trace_->roles[trace_->role_of_rank[run.rank]].ops.size(), -1);
  for (std::size_t i = 0; i < ops.size(); ++i) places[ops[i]] = static_cast<SpanIndex>(i);
}

void StepGraph::take_interval(std::int32_t step, const StepIntervals& intervals) {
  devices_work_ = intervals.devices_work();
  const StepIntervals::Step* own = intervals.find(step);
  if (own == nullptr) return;
  begin_ = own->counts ? own->interval.begin : spans_.front().begin;
  end_ = own->counts ? own->interval.end : begin_;
  others_.resize(trace_->same_as.size());
  const auto meets = [&](SimTime begin, SimTime end) { return begin < end_ && begin_ < end; };
  for (const StepIntervals::Step& other : intervals.steps()) {
    if (&other == own || !meets(other.window.begin, other.window.end)) continue;
    for (std::size_t i = other.first; i < other.last; ++i) {
      const Span& s = trace_->spans[i];
      if (meets(s.begin, s.end) && span_class(s) != SpanClass::Other) {
        others_[s.rank].push_back(i);
      }
    }
  }
}

/// Goes through the spans once, rank by rank.
void StepGraph::index_spans() {
  IndexVector<std::int32_t, RoleChannels> roles(trace_->roles.size());
  for (const Rank rank : ranks_) {
    const std::int32_t role = trace_->role_of_rank[rank];
    if (roles[role].of_form.empty()) roles[role] = channels_of(trace_->roles[role], kind_class_);
  }
  MeetingPlaces places(*trace_);
  std::vector<IndexVector<std::int32_t, std::int32_t>> of_channel;  // by position in ranks_
  for (const Rank rank : ranks_) {
    of_channel.push_back(places.of_rank(rank, roles[trace_->role_of_rank[rank]]));
  }
  const IndexVector<int, std::int32_t> first = places.first_meetings();
  meeting_of_.assign(spans_.size(), -1);
  meetings_.assign(to_size(first.back()) + 1, 0);
  last_of_meeting_.assign(to_size(first.back()), -1);
  latest_begin_.assign(last_of_meeting_.size(), SimTime::min());
  list_of_.resize(range_of_.size(), 0);
  IndexVector<std::int32_t, const Spans::Run*> first_of_role(trace_->roles.size(), nullptr);
  Interval window{SimTime::max(), SimTime::min()};
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::int32_t number = trace_->role_of_rank[ranks_[r]];
    const RoleChannels& role = roles[number];
    const TraceOps& ops = trace_->roles[number].ops;
    index_ops(runs_[r], first_of_role[number]);
    SpanIndex i = of_rank(ranks_[r]).first - 1;
    for (const Span& s : trace_->spans.range(runs_[r])) {
      ++i;
      const std::uint32_t form = ops.form(s.op);
      if (!devices_work_ || facts_[number][form].op_class != OpClass::Host) {
        window.begin = std::min(window.begin, s.begin);
        if (s.end > window.end) {
          window.end = s.end;
          last_to_end_ = i;
        }
      }
      const std::int32_t channel = role.of_form[form];
      if (channel < 0 || of_channel[r][channel] < 0) continue;
      const std::int32_t seq = ops[s.op].seq;
      if (seq < 0) continue;
      const std::int32_t meeting = first[of_channel[r][channel]] + seq;
      meeting_of_[i] = meeting;
      ++meetings_[to_size(meeting) + 1];
      if (last_of_meeting_[meeting] >= 0 && s.begin <= latest_begin_[meeting]) continue;
      last_of_meeting_[meeting] = i;
      latest_begin_[meeting] = s.begin;
    }
  }
  if (program_ != nullptr && last_to_end_ >= 0) {
    begin_ = window.begin;
    end_ = window.end;
  }
  // A counting sort of the spans by meeting keeps members in rank order.
  for (std::size_t m = 1; m < meetings_.size(); ++m) meetings_[m] += meetings_[m - 1];
  members_.resize(to_size(meetings_.back()));
  IndexVector<std::int32_t, SpanIndex> next(meetings_.begin(), meetings_.end() - 1);
  for (SpanIndex i = 0; i < size(); ++i) {
    if (const std::int32_t m = meeting_of_[i]; m >= 0) members_[next[m]++] = i;
  }
}

void StepGraph::index_ends() {
  end_offset_ = {0};
  for (const Rank rank : ranks_) {
    const Range range = of_rank(rank);
    for (SpanIndex i = range.first; i < range.last; ++i) {
      if (counts(i)) by_end_.push_back(i);
    }
    std::sort(by_end_.begin() + static_cast<std::ptrdiff_t>(end_offset_.back()), by_end_.end(),
              [&](SpanIndex a, SpanIndex b) {
                return std::tuple((*this)[a].end, a) < std::tuple((*this)[b].end, b);
              });
    end_offset_.push_back(by_end_.size());
  }
}

StepGraph::Range StepGraph::of_rank(Rank rank) const { return range_of_[rank]; }

SpanIndex StepGraph::find(Rank rank, OpId op) const {
  const SpanIndex place = by_op_[list_of_[rank]][op];
  return place < 0 ? -1 : range_of_[rank].first + place;
}

SpanIndex StepGraph::on_stream_before(SpanIndex i) const {
  const std::size_t at = spans_.first() + to_size(i);
  const Spans::Run& run = trace_->spans.run_of(at);
  if (at == run.first) return -1;
  const OpId* const op = &trace_->spans.ops(run)[at - run.first];
  return facts(run.rank, op[-1]).stream == facts(run.rank, op[0]).stream ? i - 1 : -1;
}

std::span<const SpanIndex> StepGraph::members(std::int32_t meeting) const {
  const auto first = to_size(meetings_[meeting]), last = to_size(meetings_[to_size(meeting) + 1]);
  return std::span<const SpanIndex>(members_).subspan(first, last - first);
}

std::span<const SpanIndex> StepGraph::meeting(SpanIndex i) const {
  const std::int32_t m = meeting_of(i);
  return m < 0 ? std::span<const SpanIndex>() : members(m);
}

SpanIndex StepGraph::last_arrival(SpanIndex i) const {
  const std::int32_t m = meeting_of(i);
  return m >= 0 && latest_begin_[m] > (*this)[i].begin ? last_of_meeting_[m] : i;
}

SpanIndex StepGraph::other_end(SpanIndex i) const {
  if (!is_message(kind_class(i))) return -1;
  for (const SpanIndex member : meeting(i)) {
    if (member != i) return member;
  }
  return -1;
}

SpanIndex StepGraph::held_by(SpanIndex i) const {
  SpanIndex latest = -1;
  if (program_ != nullptr) {
    for_each_before(i, [&](SpanIndex before) {
      if (latest < 0 || (*this)[before].end > (*this)[latest].end) latest = before;
    });
    return latest;
  }
  const std::size_t place =
      to_size(std::lower_bound(ranks_.begin(), ranks_.end(), (*this)[i].rank) - ranks_.begin());
  const auto first = by_end_.begin() + static_cast<std::ptrdiff_t>(end_offset_[place]);
  const auto last = by_end_.begin() + static_cast<std::ptrdiff_t>(end_offset_[place + 1]);
  auto after = std::upper_bound(first, last, (*this)[i].begin, [&](SimTime begin, SpanIndex other) {
    return begin < (*this)[other].end;
  });
  // Two spans of zero length at the same instant must not wait for each other: the one with the
  // lower index counts as the earlier one.
  const auto came_first = [&](SpanIndex other) {
    return (*this)[other].begin < (*this)[i].begin || other < i;
  };
  while (after != first) {
    if (came_first(*--after)) return *after;
  }
  return -1;
}

}  // namespace lockstep
