#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "core/chakra/program/program.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kPicoseconds = 1000000;  // of a microsecond

ChakraCollective collective_of(OpKind kind) {
  switch (kind) {
    case OpKind::AllGather:
    case OpKind::AllGatherRows:
      return ChakraCollective::AllGather;
    case OpKind::ReduceScatter:
    case OpKind::ReduceScatterRows:
      return ChakraCollective::ReduceScatter;
    case OpKind::Broadcast:
      return ChakraCollective::Broadcast;
    case OpKind::AllToAll:
    case OpKind::AllToAllRows:
      return ChakraCollective::AllToAll;
    default:
      return ChakraCollective::AllReduce;
  }
}

/// The spans of the last step of a rank's trace, by op.
IndexVector<OpId, std::optional<Span>> spans_of(const Trace& trace, Rank rank, std::size_t ops) {
  IndexVector<OpId, std::optional<Span>> found(ops);
  const Rank shown = trace.same_as.empty() ? rank : trace.same_as[rank];
  if (trace.spans.empty()) return found;
  for (const Span& span : trace.spans.range(trace.spans.back().step, shown)) {
    if (to_size(span.op) < ops) found[span.op] = span;
  }
  return found;
}

/// Whether ASTRA-sim runs one of these at a time.
bool one_at_a_time(ChakraType type) {
  return type != ChakraType::Compute && type != ChakraType::Recv;
}

/// ASTRA-sim divides by the flops and the bytes of a computation, and ends where there are none to
/// divide by (a lookup has no flops) or to send (messages of given times have no bytes).
std::int64_t at_least_one(std::int64_t amount) { return std::max<std::int64_t>(1, amount); }

}  // namespace

/// A node, and what decides its place: the time at which it begins, then what is the same on all
/// ranks that take part.
struct ChakraWriter::Placed {
  ChakraNode node;
  OpId op;
  SimTime active{}, end{};
  std::int32_t channel = -1, seq = -1;
  auto key() const {
    return std::tuple(active, end, channel, seq, op.v, node.type == ChakraType::Recv);
  }
};

ChakraWriter::ChakraWriter(const Program& program, const Trace& simulated, const Trace& measured)
    : program_(program), simulated_(simulated), measured_(measured) {}

ChakraGroups ChakraWriter::groups() const {
  ChakraGroups groups;
  for (const auto& [ranks, name] : groups_) groups[name] = ranks;
  return groups;
}

const std::string& ChakraWriter::group_of(const std::vector<Rank>& members) {
  // The name 0 is that of all ranks, whether a file lists it or not.
  std::string& name = groups_[members];
  if (name.empty()) name = std::to_string(groups_.size());
  return name;
}

ChakraNode ChakraWriter::node(Rank rank, const Role& role, OpId id) const {
  const Op& op = role.op(id);
  ChakraNode node;
  node.name = describe(program_, role, id);
  if (op.kind == OpKind::Call) {
    const Work done = work(program_.function(op.function()));
    node.type = ChakraType::Compute;
    node.on_host = op.stream == Stream::Host;
    node.flops = at_least_one(static_cast<std::int64_t>(done.flops.v));
    node.bytes = at_least_one(done.bytes.v);
    return node;
  }
  // That of the first argument, which of a gather is the member's own.
  const ExpectedRows rows = role.rows_of(op);
  const std::int64_t payload = !is_counted(op.kind) ? role.buffer(role.args_of(op)[0]).bytes.v
                               : op.kind == OpKind::ReduceScatterRows
                                   ? payload_bytes(program_, role, op).v
                                   : std::int64_t{rows.count} * rows.bytes;
  node.payload = at_least_one(payload);
  if (is_copy(op.kind)) {
    // What the host gives and takes is small, and ASTRA-sim has memory beside the device's only if
    // it is told so.
    node.type = !op.moves_memory() ? ChakraType::Compute
                : op.kind == OpKind::HostToDevice || op.kind == OpKind::DriveToHost
                    ? ChakraType::MemoryLoad
                    : ChakraType::MemoryStore;
    node.on_host = !op.moves_memory() || is_drive_copy(op.kind);
    node.bytes = std::exchange(node.payload, 0);
  } else if (is_p2p(op.kind)) {
    const Rank peer = program_.mesh.with_coordinate(rank, program_.mesh.index_of("pp"), op.peer());
    node.type = op.kind == OpKind::Send ? ChakraType::Send : ChakraType::Recv;
    node.source = op.kind == OpKind::Send ? rank : peer;
    node.target = op.kind == OpKind::Send ? peer : rank;
    node.tag = op.stream == Stream::SendForward || op.stream == Stream::RecvForward ? 0 : 1;
  } else {
    node.type = ChakraType::Collective;
    node.collective = static_cast<std::int64_t>(collective_of(op.kind));
  }
  return node;
}

Result<std::vector<ChakraNode>> ChakraWriter::nodes(Rank rank) {
  const Role& role = program_.role_of(rank);
  const auto spans = spans_of(simulated_, rank, role.ops.size());
  const auto times = spans_of(measured_, rank, role.ops.size());
  std::vector<Placed> placed;
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.op(id);
    if (!spans[id] || !times[id]) {
      return Error{ErrorKind::Internal, "the trace does not have " + describe(program_, role, id),
                   std::nullopt};
    }
    const TraceRole& traced = simulated_.roles[simulated_.role_of_rank[spans[id]->rank]];
    const std::int64_t took = (times[id]->end - times[id]->active).count();
    Placed p{node(rank, role, id), id, spans[id]->active, spans[id]->end, traced.ops[id].channel,
             traced.ops[id].seq};
    p.node.duration_ps = took;
    p.node.start_us = spans[id]->active.count() / kPicoseconds;
    if (is_collective(op.kind)) {
      const std::vector<Rank> group = members(program_.mesh, program_.group(op.group()), rank);
      if (op.kind == OpKind::Rotate) {
        const auto at = std::find(group.begin(), group.end(), rank) - group.begin();
        const auto size = static_cast<std::ptrdiff_t>(group.size());
        p.node.tag = 2 + op.target;
        p.node.type = ChakraType::Recv;
        p.node.collective = 0;
        p.node.source = group[static_cast<std::size_t>((at + size - 1) % size)];
        p.node.target = rank;
        placed.push_back(p);
        p.node.type = ChakraType::Send;
        p.node.source = rank;
        p.node.target = group[static_cast<std::size_t>((at + 1) % size)];
      } else {
        p.node.group = group_of(group);
      }
    }
    placed.push_back(std::move(p));
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.key() < b.key(); });

  // The nodes of every op, by their ids.
  IndexVector<OpId, std::vector<std::uint64_t>> ids;
  ids.resize(role.ops.size());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    placed[i].node.id = i;
    ids[placed[i].op].push_back(i);
  }
  IndexVector<OpId, OpId> before;  // on the same stream
  IndexVector<Stream, OpId> last;
  last.resize(kNumStreams, OpId{});
  for (const OpId id : role.ops.ids()) {
    before.push_back(last[role.op(id).stream]);
    last[role.op(id).stream] = id;
  }
  std::vector<ChakraNode> nodes;
  std::optional<std::uint64_t> transfer;
  std::int64_t passed = 0, whole = 0;  // of the rank's compute: picoseconds, microseconds
  for (Placed& p : placed) {
    ChakraNode& node = p.node;
    const auto follow = [&](OpId op, std::vector<std::uint64_t>& list) {
      list.insert(list.end(), ids[op].begin(), ids[op].end());
    };
    for (const OpId op : role.after_of(role.op(p.op))) follow(op, node.after_data);
    if (before[p.op].valid()) follow(before[p.op], node.after_control);
    if (one_at_a_time(node.type)) {
      if (transfer) node.after_control.push_back(*transfer);
      transfer = node.id;
    }
    std::sort(node.after_control.begin(), node.after_control.end());
    node.after_control.erase(std::unique(node.after_control.begin(), node.after_control.end()),
                             node.after_control.end());
    for (const auto* list : {&node.after_control, &node.after_data}) {
      if (list->empty() || *std::max_element(list->begin(), list->end()) < node.id) continue;
      return Error{ErrorKind::Internal, node.name + " begins before what it waits for",
                   std::nullopt};
    }
    if (node.type == ChakraType::Compute) {
      // Rounded so that the sum stays true, however short the calls are.
      passed += node.duration_ps;
      node.duration_us = (passed + kPicoseconds / 2) / kPicoseconds - whole;
      whole += node.duration_us;
    } else {
      node.duration_us = (node.duration_ps + kPicoseconds / 2) / kPicoseconds;
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace lockstep
