#include "core/run/trace_builder.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/ir/lifetimes.hpp"
#include "core/ir/text/text.hpp"
#include "core/trace/name_table.hpp"

namespace lockstep {
namespace {

std::string_view kind_of_call(Phase phase) {
  switch (phase) {
    case Phase::F:
      return "forward";
    case Phase::B:
      return "backward";
    case Phase::I:
      return "backward_input";
    case Phase::W:
      return "backward_weight";
    case Phase::R:
      return "recompute";
    case Phase::O:
      return "optimizer";
    case Phase::S:
      return "synchronization";
    case Phase::None:
      return "other";
  }
  return "other";
}

bool is_backward(Stream stream) {
  return stream == Stream::SendBackward || stream == Stream::RecvBackward;
}

std::string name_of(const Program& program, const Op& op) {
  if (op.kind == OpKind::Call) return program.function(op.function()).name;
  if (is_collective(op.kind)) {
    return std::string(to_string(op.kind)) + " " + program.group(op.group()).name;
  }
  if (is_p2p(op.kind)) {
    return std::string(op.kind == OpKind::Send ? "send" : "recv") +
           (is_backward(op.stream) ? " backward" : " forward");
  }
  if (op.moves_memory()) {
    switch (op.kind) {
      case OpKind::HostToDevice:
        return "copy to device";
      case OpKind::DeviceToHost:
        return "copy to host";
      case OpKind::DriveToHost:
        return "read from drive";
      default:
        return "write to drive";
    }
  }
  return "copy " + std::string(to_string(op.host()));
}

std::string kind_of(const Op& op) {
  if (op.kind == OpKind::Call) return std::string(kind_of_call(op.phase));
  if (op.kind == OpKind::Send) return "send";
  if (op.kind == OpKind::Recv) return "recv";
  if (is_copy(op.kind)) return "copy";
  // What is counted is of the kind of what is not: "all_to_all_rows" is an all-to-all.
  std::string_view kind = to_string(op.kind);
  if (is_counted(op.kind)) kind.remove_suffix(std::string_view("_rows").size());
  return std::string(kind);
}

/// The channel (see make_trace_skeleton) of a message that a rank at pipeline coordinate `pp` sends
/// or receives.
std::int32_t message_channel(const Op& op, int pp, int num_pp) {
  const int from = op.kind == OpKind::Send ? pp : op.peer();
  const int to = op.kind == OpKind::Send ? op.peer() : pp;
  return kFirstMessageChannel + ((is_backward(op.stream) ? num_pp : 0) + from) * num_pp + to;
}

/// Gives ops the numbers of their names and kinds in Trace::names. They are looked up by what makes
/// them, so that no string is built for each op.
class OpNames {
 public:
  OpNames(const Program& program, NameTable& names) : program_(program), names_(names) {}

  std::int32_t name(const Op& op) {
    // A message's name tells its direction and not its peer.
    const std::int32_t target = is_p2p(op.kind) ? (is_backward(op.stream) ? 1 : 0) : op.target;
    IndexVector<std::int32_t, std::int32_t>& of_kind = by_target_[op.kind];
    if (target >= of_kind.next()) of_kind.resize(to_size(target) + 1, -1);
    std::int32_t& name = of_kind[target];
    if (name < 0) name = names_.id(name_of(program_, op));
    return name;
  }
  std::int32_t kind(const Op& op) {
    std::int32_t& kind = by_phase_[op.kind][op.kind == OpKind::Call ? op.phase : Phase::None];
    if (kind < 0) kind = names_.id(kind_of(op));
    return kind;
  }

 private:
  using ByPhase = IndexArray<Phase, std::int32_t, kNumPhases>;
  static IndexArray<OpKind, ByPhase, kNumOpKinds> no_kinds() {
    IndexArray<OpKind, ByPhase, kNumOpKinds> none;
    for (ByPhase& of_kind : none) of_kind.fill(-1);
    return none;
  }
  const Program& program_;
  NameTable& names_;
  IndexArray<OpKind, IndexVector<std::int32_t, std::int32_t>, kNumOpKinds> by_target_;
  IndexArray<OpKind, ByPhase, kNumOpKinds> by_phase_ = no_kinds();
};

TraceRole trace_role(const Program& program, const Role& role, OpNames& names) {
  const int pp_dim = program.mesh.index_of("pp");
  const int num_pp = program.mesh.size_of("pp");
  const int pp =
      pp_dim < 0 || role.ranks.empty() ? 0 : program.mesh.coordinate(role.ranks.front(), pp_dim);
  std::unordered_map<std::int32_t, std::int32_t> next_seq;  // by channel
  TraceRole result;
  result.ops.reserve(role.ops.size());
  for (const Op& op : role.ops) {
    TraceOp t;
    t.name = names.name(op);
    if (op.kind != OpKind::Call) t.bytes = payload_bytes(program, role, op).v;
    t.kind = names.kind(op);
    t.stream = static_cast<std::uint16_t>(op.stream);
    t.phase = static_cast<std::uint8_t>(op.phase);
    t.stage = op.stage;
    t.layer = op.layer;
    t.microbatch = op.microbatch;
    if (is_collective(op.kind)) t.channel = op.target;
    if (is_p2p(op.kind)) t.channel = message_channel(op, pp, num_pp);
    if (t.channel >= 0) t.seq = next_seq[t.channel]++;
    result.ops.push_back(t);
  }
  return result;
}

/// "rank 3 (pp1 dp_shard1)": coordinates along the dimensions that have more than one rank.
std::string rank_label(const Mesh& mesh, Rank rank) {
  std::string coordinates;
  for (std::size_t d = 0; d < mesh.dims.size(); ++d) {
    if (mesh.dims[d].size == 1) continue;
    if (!coordinates.empty()) coordinates += ' ';
    coordinates += mesh.dims[d].name + std::to_string(mesh.coordinate(rank, static_cast<int>(d)));
  }
  return "rank " + std::to_string(rank) + (coordinates.empty() ? "" : " (" + coordinates + ")");
}

struct MemoryEvent {
  SimTime time{};
  BufferKind kind{};
  std::int64_t bytes = 0;  // negative if the buffer is freed
};

/// The memory samples of one rank; `spans` are its spans of one step.
std::vector<MemorySample> rank_samples(const Role& role, const BufferUses& uses, SimTime step_begin,
                                       const SpanRange& spans) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  IndexVector<OpId, std::uint32_t> place(role.ops.size(), kNone);  // in `spans`
  for (std::uint32_t i = 0; i < spans.size(); ++i) place[spans[i].op] = i;
  std::vector<MemorySample> samples;
  IndexArray<BufferKind, std::int64_t, kNumBufferKinds> live{};
  std::vector<MemoryEvent> events;
  events.reserve(2 * role.buffers.size());
  for (const BufferId id : role.buffers.ids()) {
    const Buffer& buffer = role.buffer(id);
    if (buffer.is_view() || buffer.tier != Tier::Device || buffer.bytes.v == 0) continue;
    if (buffer.persistent()) {
      live[buffer.kind] += buffer.bytes.v;
      continue;
    }
    SimTime first = SimTime::max(), last = SimTime::min();
    for (const OpId op : uses.of(id)) {
      if (place[op] == kNone) continue;
      const Span span = spans[place[op]];
      first = std::min(first, span.begin);
      last = std::max(last, span.end);
    }
    if (last == SimTime::min()) continue;
    events.push_back({first, buffer.kind, buffer.bytes.v});
    events.push_back({last, buffer.kind, -buffer.bytes.v});
  }
  std::sort(events.begin(), events.end(),
            [](const MemoryEvent& a, const MemoryEvent& b) { return a.time < b.time; });
  // There is one sample per time, because what is freed and what is allocated at one time was never
  // live together.
  SimTime time = step_begin;
  std::size_t times = 1;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].time > (i == 0 ? step_begin : events[i - 1].time)) ++times;
  }
  samples.reserve(times);
  const auto sample = [&] {
    samples.push_back(
        {spans.front().rank, time, std::vector<std::int64_t>(live.begin(), live.end())});
  };
  for (const MemoryEvent& event : events) {
    if (event.time > time) {
      sample();
      time = event.time;
    }
    live[event.kind] += event.bytes;
  }
  sample();
  return samples;
}

/// When the first traced step begins.
SimTime first_begin(const Trace& trace) {
  SimTime begin = SimTime::max();
  for (const Span& span : trace.spans.range(trace.spans.of_first_step())) {
    begin = std::min(begin, span.begin);
  }
  return begin;
}

}  // namespace

Trace make_trace_skeleton(const Program& program, std::string backend) {
  Trace trace;
  trace.backend = std::move(backend);
  trace.program_hash = program_hash(program);
  NameTable table(trace.names);
  OpNames names(program, table);
  for (const Role& role : program.roles) trace.roles.push_back(trace_role(program, role, names));
  for (int s = 0; s < kNumStreams; ++s) {
    trace.streams.emplace_back(to_string(static_cast<Stream>(s)));
  }
  for (int k = 0; k < kNumBufferKinds; ++k) {
    trace.memory_kinds.emplace_back(to_string(static_cast<BufferKind>(k)));
  }
  for (const Group& group : program.groups) {
    std::vector<Rank> smallest;
    for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
      const bool inside = position(program.mesh, group, rank) >= 0;
      smallest.push_back(inside ? first_member(program.mesh, group, rank) : -1);
    }
    trace.instances.push_back(std::move(smallest));
  }
  for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
    trace.rank_labels.push_back(rank_label(program.mesh, rank));
    trace.role_of_rank.push_back(program.role_of_rank[rank].v);
    trace.same_as.push_back(rank);
    trace.peak_memory.push_back(program.role_of(rank).arena.v);
  }
  return trace;
}

Result<void> check_spans(const Program& program, const std::vector<Span>& spans,
                         const std::vector<std::int64_t>& peak_memory) {
  const Rank ranks = program.mesh.world_size();
  bool good = std::ssize(peak_memory) == ranks;
  for (const Span& span : spans) {
    good = good && span.rank >= 0 && span.rank < ranks && span.op.v >= 0 &&
           span.op.v < std::ssize(program.role_of(span.rank).ops);
  }
  if (good) return {};
  return Error{ErrorKind::Device, "another process sent a trace of another program", std::nullopt};
}

Spans ordered(std::vector<Span> spans, const Program& program) {
  const auto stream = [&](const Span& span) {
    return program.role_of(span.rank).op(span.op).stream;
  };
  std::sort(spans.begin(), spans.end(), [&](const Span& a, const Span& b) {
    return std::tuple(a.step, a.rank, stream(a), a.begin, a.op) <
           std::tuple(b.step, b.rank, stream(b), b.begin, b.op);
  });
  SimTime zero = SimTime::max();
  for (const Span& span : spans) zero = std::min(zero, span.begin);
  for (Span& span : spans) {
    span.begin -= zero;
    span.active -= zero;
    span.end -= zero;
  }
  return Spans(spans);
}

std::vector<MemorySample> memory_samples(const Trace& trace, const Program& program) {
  const SimTime begin = first_begin(trace);
  // Ranks are sampled side by side, because each looks at its own spans only; the samples of a rank
  // stay in the order of time.
  const std::span<const Spans::Run> ranks = trace.spans.of_first_step();
  std::vector<std::optional<BufferUses>> uses(program.roles.size());
  for (const Spans::Run& run : ranks) {
    const RoleId role = program.role_of_rank[run.rank];
    if (!uses[to_size(role)]) uses[to_size(role)].emplace(program.roles[role]);
  }
  std::vector<std::vector<MemorySample>> samples(ranks.size());
  ThreadTeam(threads_for(trace.spans.range(ranks).size())).each(samples.size(), [&](auto i) {
    const RoleId role = program.role_of_rank[ranks[i].rank];
    samples[i] =
        rank_samples(program.roles[role], *uses[to_size(role)], begin, trace.spans.range(ranks[i]));
  });
  std::size_t count = 0;
  for (const std::vector<MemorySample>& of_rank : samples) count += of_rank.size();
  std::vector<MemorySample> all;
  all.reserve(count);
  for (std::vector<MemorySample>& of_rank : samples) {
    std::move(of_rank.begin(), of_rank.end(), std::back_inserter(all));
  }
  return all;
}

std::vector<MemorySample> memory_samples(const Trace& trace, const Program& program, Rank rank) {
  if (trace.spans.empty()) return {};
  const SpanRange spans = trace.spans.range(trace.spans.front().step, rank);
  if (spans.empty()) return {};
  const Role& role = program.role_of(rank);
  return rank_samples(role, BufferUses(role), first_begin(trace), spans);
}

}  // namespace lockstep
