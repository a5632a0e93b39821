#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "core/chakra/program/program.hpp"

namespace lockstep {
namespace {

using Ids = std::vector<std::uint64_t>;

std::string name_of(const ChakraNode& node) {
  return "node " + std::to_string(node.id) + " '" + node.name + "'";
}

bool has_op(const ChakraNode& node) {
  return node.type != ChakraType::Invalid && node.type != ChakraType::Metadata;
}

/// A rank's nodes that become ops, in an order that its dependencies allow, earlier ids first.
struct RankOrder {
  std::vector<const ChakraNode*> nodes;
  std::unordered_map<std::uint64_t, std::size_t> place;  // by id
  std::vector<std::vector<std::size_t>> after;           // places, by place
};

Result<RankOrder> order(const std::vector<ChakraNode>& nodes, const std::string& file) {
  std::unordered_map<std::uint64_t, const ChakraNode*> by_id;
  for (const ChakraNode& node : nodes) by_id[node.id] = &node;
  std::unordered_map<std::uint64_t, std::unordered_set<std::uint64_t>> parents;
  std::unordered_map<std::uint64_t, Ids> children;
  std::priority_queue<std::uint64_t, Ids, std::greater<>> ready;
  for (const ChakraNode& node : nodes) {
    auto& waits = parents[node.id];
    for (const Ids* list : {&node.after_data, &node.after_control}) {
      for (const std::uint64_t id : *list) {
        if (!by_id.contains(id)) {
          return invalid(file + ": " + name_of(node) + " depends on node " + std::to_string(id) +
                         ", which is not in the file");
        }
        if (waits.insert(id).second) children[id].push_back(node.id);
      }
    }
    if (waits.empty()) ready.push(node.id);
  }
  RankOrder found;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> ends;  // ops that stand for a node
  std::size_t done = 0;
  std::unordered_map<std::uint64_t, std::size_t> open;
  for (const auto& [id, waits] : parents) open[id] = waits.size();
  for (; !ready.empty(); ++done) {
    const std::uint64_t id = ready.top();
    ready.pop();
    const ChakraNode& node = *by_id[id];
    std::vector<std::size_t> after;
    for (const std::uint64_t parent : parents[id]) {
      after.insert(after.end(), ends[parent].begin(), ends[parent].end());
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (has_op(node)) {
      ends[id] = {found.nodes.size()};
      found.place[id] = found.nodes.size();
      found.nodes.push_back(&node);
      found.after.push_back(std::move(after));
    } else {
      ends[id] = std::move(after);
    }
    for (const std::uint64_t child : children[id]) {
      if (--open[child] == 0) ready.push(child);
    }
  }
  if (done != nodes.size()) {
    const auto stuck = std::find_if(nodes.begin(), nodes.end(),
                                    [&](const ChakraNode& n) { return open[n.id] != 0; });
    return invalid(file + ": the dependencies of " + name_of(*stuck) + " lead in a circle");
  }
  return found;
}

/// What is one thing on one or several ranks: a call, a collective, a message from end to end.
struct Event {
  std::vector<std::pair<Rank, std::size_t>> parts;  // of a message: sender, receiver
  std::size_t missing = 0;                          // events that must come before
  std::vector<std::size_t> before;
};

class Builder {
 public:
  Builder(const ChakraTrace& trace, const ChakraRoofline& roofline)
      : trace_(trace), roofline_(roofline) {}

  Result<Program> build() {
    const auto world = static_cast<int>(trace_.ranks.size());
    program_.mesh.dims.push_back({"pp", world});
    program_.dtype = DType::BF16;
    for (Rank rank = 0; rank < world; ++rank) {
      Result<RankOrder> order = lockstep::order(trace_.ranks[rank], trace_.files[to_size(rank)]);
      if (!order) return order.error();
      orders_.push_back(std::move(*order));
      event_of_.emplace_back(orders_[rank].nodes.size(), 0);
    }
    for (Rank rank = 0; rank < world; ++rank) {
      if (auto found = find_events(rank); !found) return found.error();
    }
    if (auto whole = check_peers(); !whole) return whole.error();
    if (auto placed = place(); !placed) return placed.error();
    for (Rank rank = 0; rank < world; ++rank) {
      if (auto emitted = emit(rank); !emitted) return emitted.error();
    }
    return std::move(program_);
  }

 private:
  Error at(Rank rank, std::size_t place, const std::string& what) const {
    return invalid(trace_.files[to_size(rank)] + ": " + name_of(*orders_[rank].nodes[place]) + " " +
                   what);
  }

  /// The members of a node's group; empty if there is no such group.
  std::vector<Rank> members_of(const ChakraNode& node) const {
    const auto found = trace_.groups.find(node.group);
    if (found != trace_.groups.end()) return found->second;
    std::vector<Rank> all;
    if (node.group.empty() || node.group == "0") {
      for (const Rank rank : trace_.ranks.ids()) all.push_back(rank);
    }
    return all;
  }

  Result<void> find_events(Rank rank) {
    std::map<std::vector<Rank>, std::int64_t> collectives;
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> messages;
    for (std::size_t p = 0; p < orders_[rank].nodes.size(); ++p) {
      const ChakraNode& node = *orders_[rank].nodes[p];
      std::size_t event = events_.size();
      if (node.type == ChakraType::Collective) {
        const std::vector<Rank> group = members_of(node);
        if (group.empty()) {
          return at(rank, p,
                    "is of group '" + node.group +
                        "', which neither NAME.json beside the files "
                        "nor comm_group.json nor metadata of PyTorch list");
        }
        if (std::find(group.begin(), group.end(), rank) == group.end()) {
          return at(rank, p,
                    "is of group '" + node.group + "', which rank " + std::to_string(rank) +
                        " is not in");
        }
        event = collectives_.try_emplace({group, collectives[group]++}, event).first->second;
      } else if (node.type == ChakraType::Send || node.type == ChakraType::Recv) {
        const bool sends = node.type == ChakraType::Send;
        const std::int64_t source = node.source.value_or(rank), target = node.target.value_or(rank);
        const std::int64_t peer = sends ? target : source;
        if ((sends ? source : target) != rank || peer == rank || peer < 0 ||
            peer >= static_cast<std::int64_t>(trace_.ranks.size())) {
          return at(rank, p,
                    "is a message from rank " + std::to_string(source) + " to " +
                        std::to_string(target) + " among the nodes of rank " +
                        std::to_string(rank));
        }
        const std::tuple channel(source, target, node.tag);
        auto& parts = messages_[{channel, messages[channel]++}];
        if (parts.second) event = parts.first;
        parts = {event, true};
      }
      if (event == events_.size()) events_.emplace_back();
      auto& parts = events_[event].parts;
      if (node.type == ChakraType::Send) {
        parts.insert(parts.begin(), {rank, p});
      } else {
        parts.emplace_back(rank, p);
      }
      event_of_[to_size(rank)][p] = event;
    }
    return {};
  }

  const ChakraNode& node(const std::pair<Rank, std::size_t>& part) const {
    return *orders_[part.first].nodes[part.second];
  }

  Result<void> check_peers() const {
    for (const auto& [key, event] : collectives_) {
      const auto& parts = events_[event].parts;
      const auto& [rank, place] = parts.front();
      if (parts.size() != key.first.size()) {
        return at(rank, place,
                  "is collective " + std::to_string(key.second + 1) + " of group '" +
                      node(parts.front()).group + "', and only " + std::to_string(parts.size()) +
                      " of its " + std::to_string(key.first.size()) + " ranks have as many");
      }
      for (const auto& part : parts) {
        const ChakraNode& other = node(part);
        if (other.collective == node(parts.front()).collective &&
            other.payload == node(parts.front()).payload) {
          continue;
        }
        return at(rank, place,
                  "and " + name_of(other) + " of rank " + std::to_string(part.first) +
                      " should be the same collective, and differ");
      }
    }
    for (const auto& [key, message] : messages_) {
      const auto& parts = events_[message.first].parts;
      if (parts.size() == 2) continue;
      return at(parts[0].first, parts[0].second, "is a message that its peer does not have");
    }
    return {};
  }

  /// Places the events one after the other, as all ranks together can run them.
  Result<void> place() {
    for (const Rank rank : orders_.ids()) {
      for (std::size_t p = 0; p < orders_[rank].nodes.size(); ++p) {
        const std::size_t event = event_of_[to_size(rank)][p];
        for (const std::size_t after : orders_[rank].after[p]) {
          const std::size_t earlier = event_of_[to_size(rank)][after];
          if (earlier == event) continue;
          events_[earlier].before.push_back(event);
          ++events_[event].missing;
        }
      }
    }
    // In the order of time where files say it. Otherwise early nodes of their ranks first, so that
    // the ranks advance side by side.
    using Entry = std::tuple<std::int64_t, std::size_t, std::size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    const auto add = [&](std::size_t event) {
      const auto& first = events_[event].parts.front();
      ready.emplace(node(first).start_us, first.second, event);
    };
    for (std::size_t e = 0; e < events_.size(); ++e) {
      if (events_[e].missing == 0) add(e);
    }
    sequence_.resize(orders_.size());
    std::size_t done = 0;
    for (; !ready.empty(); ++done) {
      const std::size_t event = std::get<2>(ready.top());
      ready.pop();
      for (const auto& [rank, p] : events_[event].parts) sequence_[rank].push_back(p);
      for (const std::size_t next : events_[event].before) {
        if (--events_[next].missing == 0) add(next);
      }
    }
    if (done == events_.size()) return {};
    for (const Event& event : events_) {
      if (event.missing == 0) continue;
      return at(event.parts.front().first, event.parts.front().second,
                "waits for what other ranks do only after it: the ranks wait for each other in a "
                "circle");
    }
    return {};
  }

  Result<void> emit(Rank rank) {
    Role role;
    role.ranks = {rank};
    std::vector<OpId> op_of(orders_[rank].nodes.size());
    for (const std::size_t p : sequence_[rank]) {
      const ChakraNode& node = *orders_[rank].nodes[p];
      op_of[p] = from_index<OpId>(role.ops.size());
      Op op;
      if (auto described = describe_op(rank, p, node, role, op); !described) return described;
      op.after_begin = static_cast<std::uint32_t>(role.after.size());
      for (const std::size_t earlier : orders_[rank].after[p]) {
        // One of the same stream has ended anyway.
        if (role.op(op_of[earlier]).stream == op.stream) continue;
        role.after.push_back(op_of[earlier]);
      }
      const std::size_t waits = role.after.size() - op.after_begin;
      if (waits > 255) return at(rank, p, "waits for more than 255 others");
      op.after_count = static_cast<std::uint8_t>(waits);
      role.ops.push_back(op);
    }
    place_buffers(role);
    program_.roles.push_back(std::move(role));
    program_.role_of_rank.push_back({static_cast<std::int32_t>(rank)});
    return {};
  }

  Result<void> describe_op(Rank rank, std::size_t p, const ChakraNode& node, Role& role, Op& op) {
    const std::int64_t bytes = std::max<std::int64_t>(1, node.payload);
    const auto bind = [&](std::initializer_list<std::int64_t> sizes) {
      op.args_begin = static_cast<std::uint32_t>(role.args.size());
      op.args_count = static_cast<std::uint16_t>(sizes.size());
      for (const std::int64_t size : sizes) role.args.push_back(buffer(role, op, size));
    };
    switch (node.type) {
      case ChakraType::Collective:
        op.stream = Stream::Layer;
        return describe_collective(rank, p, node, bytes, bind, op);
      case ChakraType::Send:
      case ChakraType::Recv: {
        // Those up and those down the ranks do not wait for each other: so go the two directions of
        // a pipeline.
        const bool sends = node.type == ChakraType::Send;
        op.kind = sends ? OpKind::Send : OpKind::Recv;
        op.target = static_cast<std::int32_t>((sends ? node.target : node.source).value());
        const bool up = sends == (op.target > rank);
        op.stream = sends ? (up ? Stream::SendForward : Stream::SendBackward)
                          : (up ? Stream::RecvForward : Stream::RecvBackward);
        bind({bytes});
        return {};
      }
      case ChakraType::MemoryLoad:
      case ChakraType::MemoryStore: {
        const bool loads = node.type == ChakraType::MemoryLoad;
        // The host's own are those to and from a drive.
        op.kind = node.on_host ? (loads ? OpKind::DriveToHost : OpKind::HostToDrive)
                  : loads      ? OpKind::HostToDevice
                               : OpKind::DeviceToHost;
        op.stream = node.on_host ? (loads ? Stream::DriveRead : Stream::DriveWrite)
                    : loads      ? Stream::Copy
                                 : Stream::CopyBack;
        op.target = static_cast<std::int32_t>(HostData::Memory);
        const std::int64_t moved = std::max<std::int64_t>(1, node.bytes);
        op.args_begin = static_cast<std::uint32_t>(role.args.size());
        op.args_count = 2;
        const CopyPath path = path_of(op.kind);
        for (const Tier tier : {path.from, path.to}) {
          role.args.push_back(new_buffer(role, moved, tier));
        }
        return {};
      }
      default:
        op.stream = node.on_host ? Stream::Host : Stream::Compute;
        op.target = function(node).v;
        program_.model_flops_per_step.v += static_cast<double>(node.flops);
        return {};
    }
  }

  template <class Bind>
  Result<void> describe_collective(Rank rank, std::size_t p, const ChakraNode& node,
                                   std::int64_t bytes, const Bind& bind, Op& op) {
    const std::vector<Rank> members = members_of(node);
    const auto size = static_cast<std::int64_t>(members.size());
    op.target = group(members).v;
    if (node.collective >= kNumChakraCollectives) {
      return at(rank, p, "is of an unknown comm_type " + std::to_string(node.collective));
    }
    switch (static_cast<ChakraCollective>(node.collective)) {
      case ChakraCollective::AllReduce:
      case ChakraCollective::Barrier:  // of a few bytes
        op.kind = OpKind::AllReduce;
        bind({bytes});
        return {};
      case ChakraCollective::AllGather:
        op.kind = OpKind::AllGather;
        bind({bytes, bytes * size});
        return {};
      case ChakraCollective::ReduceScatter:
      case ChakraCollective::ReduceScatterBlock:
        op.kind = OpKind::ReduceScatter;
        bind({ceil_div(bytes, size) * size, ceil_div(bytes, size)});
        return {};
      case ChakraCollective::Broadcast:
        op.kind = OpKind::Broadcast;
        bind({bytes});
        return {};
      case ChakraCollective::AllToAll:
        op.kind = OpKind::AllToAll;
        bind({ceil_div(bytes, size) * size, ceil_div(bytes, size) * size});
        return {};
      default:
        return at(rank, p, "is a reduce, gather or scatter to one rank, which no program here has");
    }
  }

  /// The ops of a stream run one after the other, so that they share their buffers: one for each
  /// argument, as large as the largest needs.
  BufferId buffer(Role& role, const Op& op, std::int64_t bytes) {
    const auto number = static_cast<int>(role.args.size() - op.args_begin);
    const auto [known, fresh] =
        shared_.try_emplace({role.ranks[0], Stream{op.stream}, bytes, number}, BufferId{});
    if (fresh) known->second = new_buffer(role, bytes, Tier::Device);
    return known->second;
  }

  static BufferId new_buffer(Role& role, std::int64_t bytes, Tier tier) {
    Buffer b;
    b.bytes = {bytes};
    b.kind = BufferKind::Comm;
    b.dtype = DType::U8;
    b.tier = tier;
    role.buffers.push_back(b);
    return from_index<BufferId>(role.buffers.size() - 1);
  }

  /// A trace says nothing of memory: all buffers lie on the same bytes, and the arena is as large
  /// as the largest of them.
  static void place_buffers(Role& role) {
    for (const Buffer& b : role.buffers) {
      std::int64_t& arena = b.tier == Tier::Device ? role.arena.v
                            : b.tier == Tier::Host ? role.host_arena.v
                                                   : role.drive_arena.v;
      arena = std::max(arena, round_up(b.bytes.v, b.tier == Tier::Drive ? kDriveBlock : 64));
    }
  }

  FunctionId function(const ChakraNode& node) {
    const double seconds = seconds_of(node);
    const auto [known, fresh] = functions_.try_emplace(
        {node.name, seconds}, from_index<FunctionId>(program_.functions.size()));
    if (fresh) {
      Function f;
      f.name = node.name.empty() ? "node" : node.name;
      Kernel delay;
      delay.kind = KernelKind::Delay;
      delay.scalars[0] = seconds;
      f.kernels = {delay};
      program_.functions.push_back(std::move(f));
    }
    return known->second;
  }

  double seconds_of(const ChakraNode& node) const {
    if (node.duration_ps > 0) return static_cast<double>(node.duration_ps) * 1e-12;
    if (node.duration_us > 0) return static_cast<double>(node.duration_us) * 1e-6;
    if (node.on_host || roofline_.flops_per_second <= 0) return 0;
    return std::max(static_cast<double>(node.flops) / roofline_.flops_per_second,
                    static_cast<double>(node.bytes) / roofline_.bytes_per_second);
  }

  GroupId group(const std::vector<Rank>& members) {
    const auto [known, fresh] =
        groups_.try_emplace(members, from_index<GroupId>(program_.groups.size()));
    if (fresh) {
      Group g{"group" + std::to_string(program_.groups.size()), {0}, {}};
      if (members.size() < trace_.ranks.size()) g.only.assign(members.begin(), members.end());
      program_.groups.push_back(std::move(g));
    }
    return known->second;
  }

  const ChakraTrace& trace_;
  const ChakraRoofline& roofline_;
  Program program_;
  IndexVector<Rank, RankOrder> orders_;
  std::vector<std::vector<std::size_t>> event_of_;  // by rank and place
  std::vector<Event> events_;
  std::map<std::pair<std::vector<Rank>, std::int64_t>, std::size_t> collectives_;
  std::map<std::pair<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t>,
           std::pair<std::size_t, bool>>
      messages_;                                          // an event, once one end is there
  IndexVector<Rank, std::vector<std::size_t>> sequence_;  // places, in the order of the events
  std::map<std::pair<std::string, double>, FunctionId> functions_;
  std::map<std::vector<Rank>, GroupId> groups_;
  std::map<std::tuple<Rank, Stream, std::int64_t, int>, BufferId> shared_;
};

}  // namespace

Result<Program> program_of(const ChakraTrace& trace, const ChakraRoofline& roofline) {
  return Builder(trace, roofline).build();
}

}  // namespace lockstep
