#include <algorithm>
#include <set>
#include <tuple>

#include "core/ir/verify/internal.hpp"
#include "core/ir/verify/traffic.hpp"

namespace lockstep::verification {

Direction direction(const Op& op) {
  switch (op.stream) {
    case Stream::SendForward:
    case Stream::RecvForward:
      return Direction::Forward;
    case Stream::SendBackward:
    case Stream::RecvBackward:
      return Direction::Backward;
    default:
      return Direction::Other;
  }
}

namespace {

RoleTraffic traffic_of(const Role& role) {
  RoleTraffic traffic;
  traffic.sequence.assign(role.ops.size(), -1);
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.op(id);
    if (!is_collective(op.kind) && !is_p2p(op.kind)) continue;
    auto& list =
        is_collective(op.kind) ? traffic.by_group[op.group()] : traffic.by_channel[channel_end(op)];
    traffic.sequence[id] = list.next();
    list.push_back(id);
  }
  return traffic;
}

}  // namespace

Traffic traffic_of(const Program& program) {
  Traffic traffic;
  for (const Role& role : program.roles) traffic.push_back(traffic_of(role));
  return traffic;
}

namespace {

DType type_of(const Role& role, OpId id) { return role.buffer(role.args_of(role.op(id))[0]).dtype; }
bool same_size_and_type(const Program& program, const Role& a, OpId at_a, const Role& b,
                        OpId at_b) {
  return payload_bytes(program, a, a.op(at_a)) == payload_bytes(program, b, b.op(at_b)) &&
         type_of(a, at_a) == type_of(b, at_b);
}
std::string size_and_type(const Program& program, const Role& role, OpId id) {
  return number(payload_bytes(program, role, role.op(id)).v) + " bytes of " +
         std::string(to_string(type_of(role, id)));
}

class Matching {
 public:
  Matching(const Program& program, const Folding& folding, const Traffic& traffic, Faults& faults)
      : program_(program), folding_(folding), traffic_(traffic), faults_(faults) {}

  void check() {
    for (const Rank rank : folding_.representatives) {
      if (faults_.full()) return;
      check_groups(rank);
      check_channels(rank);
    }
    check_microbatches();
  }

 private:
  RoleId role_id(Rank rank) const { return program_.role_of_rank[rank]; }
  const RoleTraffic& traffic(Rank rank) const { return traffic_[role_id(rank)]; }

  void check_groups(Rank rank) {
    for (const auto& [id, ops] : traffic(rank).by_group) {
      const Group& group = program_.group(id);
      for (const Rank member : members(program_.mesh, group, rank)) {
        // It is enough to compare every pair of roles once, since a role's ranks share its list.
        const auto low = std::min(role_id(rank), role_id(member));
        const auto high = std::max(role_id(rank), role_id(member));
        if (low == high || !compared_.insert({low, high, id}).second) continue;
        compare_collectives(group, id, rank, member);
      }
    }
  }

  void compare_collectives(const Group& group, GroupId id, Rank rank, Rank member) {
    const auto& own = traffic(rank).by_group.at(id);
    const auto found = traffic(member).by_group.find(id);
    if (found == traffic(member).by_group.end()) {
      return faults_.add("group " + group.name + ": member rank " + number(member) +
                         " is missing: it issues no collective, but " +
                         op_at(program_, rank, own[0]));
    }
    const auto& other = found->second;
    const Role& role = program_.role_of(rank);
    const Role& peer = program_.role_of(member);
    for (std::size_t i = 0; i < std::min(own.size(), other.size()); ++i) {
      const Op& a = role.op(own[i]);
      const Op& b = peer.op(other[i]);
      const auto pair = [&] {
        return "group " + group.name + ": collective " + number(static_cast<std::int64_t>(i)) +
               " of " + op_at(program_, rank, own[i]) + " (" +
               size_and_type(program_, role, own[i]) + ") meets " +
               op_at(program_, member, other[i]) + " (" + size_and_type(program_, peer, other[i]) +
               ")";
      };
      if ((a.phase == Phase::S) != (b.phase == Phase::S)) {
        return faults_.add(pair() + ": one of them runs in steps that synchronize replicas alone");
      }
      if (a.kind != b.kind || a.largest != b.largest) {
        return faults_.add(pair() + ": the order of collectives differs");
      }
      if (!same_size_and_type(program_, role, own[i], peer, other[i])) {
        return faults_.add(pair() + ": size or type differs");
      }
    }
    if (own.size() != other.size()) {
      const bool longer = own.size() > other.size();
      const std::size_t extra = std::min(own.size(), other.size());
      faults_.add(
          "group " + group.name + ": rank " + number(rank) + " issues " +
          number(static_cast<std::int64_t>(own.size())) + " collectives but rank " +
          number(member) + " issues " + number(static_cast<std::int64_t>(other.size())) +
          ": a member is missing from " +
          (longer ? op_at(program_, rank, own[extra]) : op_at(program_, member, other[extra])));
    }
  }

  void check_channels(Rank rank) {
    const int pp = program_.mesh.index_of("pp");
    for (const auto& [end, ops] : traffic(rank).by_channel) {
      const Rank peer = program_.mesh.with_coordinate(rank, pp, end.peer);
      const bool sends = end.kind == OpKind::Send;
      const ChannelEnd opposite = {sends ? OpKind::Recv : OpKind::Send,
                                   program_.mesh.coordinate(rank, pp), end.direction};
      const auto found = traffic(peer).by_channel.find(opposite);
      const std::size_t met = found == traffic(peer).by_channel.end() ? 0 : found->second.size();
      if (met < ops.size()) {
        faults_.add(op_at(program_, rank, ops[met]) + " has no matching " +
                    (sends ? "receive" : "send") + " on rank " + number(peer));
      }
      if (!sends || met == 0) continue;
      for (std::size_t i = 0; i < std::min(met, ops.size()); ++i) {
        if (!check_message(rank, ops[i], peer, found->second[i])) break;
      }
    }
  }

  bool check_message(Rank from, OpId send, Rank to, OpId recv) {
    const Op& a = program_.role_of(from).op(send);
    const Op& b = program_.role_of(to).op(recv);
    const auto pair = [&] {
      return op_at(program_, from, send) + " meets " + op_at(program_, to, recv);
    };
    // Each end carries its own stage, and the receiver's is the next one of the pass. A pass may go
    // either way along the ranks, so that its phase decides; without a phase, the stream does.
    const bool backward = a.phase == Phase::None ? direction(a) == Direction::Backward
                                                 : a.phase == Phase::B || a.phase == Phase::I;
    const int step = backward ? -1 : 1;
    const bool stages =
        a.stage < 0 || b.stage < 0 || a.stage == b.stage || a.stage + step == b.stage;
    if (a.microbatch != b.microbatch || !stages) {
      faults_.add(pair() + ": stage or microbatch differs");
      return false;
    }
    const Role& sender = program_.role_of(from);
    const Role& receiver = program_.role_of(to);
    if (!same_size_and_type(program_, sender, send, receiver, recv)) {
      faults_.add(pair() + ": " + size_and_type(program_, sender, send) + " are sent, " +
                  size_and_type(program_, receiver, recv) + " received");
      return false;
    }
    return true;
  }

  /// What a rank of a role has of the batch.
  struct Share {
    std::size_t microbatches = 0;
    OpId last;            // the last forward call
    Bytes from_host;      // of inputs and targets
    OpId last_from_host;  // the last copy of these
  };
  static Share share_of(const Role& role) {
    std::set<Microbatch> microbatches;
    Share share;
    for (const OpId id : role.ops.ids()) {
      const Op& op = role.op(id);
      if (op.kind == OpKind::HostToDevice) {
        share.from_host += role.buffer(role.args_of(op)[0]).bytes;
        share.last_from_host = id;
      }
      if (op.kind != OpKind::Call || op.phase != Phase::F) continue;
      microbatches.insert(op.microbatch);
      share.last = id;
    }
    share.microbatches = microbatches.size();
    return share;
  }

  // Compares ranks of one pipeline coordinate, which run the same stages for equal shares of the
  // batch.
  void check_microbatches() {
    const int pp = program_.mesh.index_of("pp");
    IndexVector<RoleId, Share> by_role;
    for (const Role& role : program_.roles) by_role.push_back(share_of(role));
    std::map<int, Rank> first;
    for (const Rank rank : folding_.representatives) {
      const int coordinate = pp < 0 ? 0 : program_.mesh.coordinate(rank, pp);
      const Rank reference = first.try_emplace(coordinate, rank).first->second;
      const Share& a = by_role[role_id(reference)];
      const Share& b = by_role[role_id(rank)];
      const auto name = [&](Rank r, OpId op) {
        return op.valid() ? op_at(program_, r, op) : "rank " + number(r);
      };
      if (a.microbatches != b.microbatches) {
        faults_.add("unequal microbatch counts: rank " + number(reference) + " runs " +
                    number(static_cast<std::int64_t>(a.microbatches)) + " microbatches (last " +
                    name(reference, a.last) + "), rank " + number(rank) +
                    " of the same stage and another data-parallel replica " +
                    number(static_cast<std::int64_t>(b.microbatches)) + " (last " +
                    name(rank, b.last) + ")");
      } else if (a.from_host != b.from_host) {
        faults_.add("unequal batches: rank " + number(reference) + " takes " +
                    number(a.from_host.v) + " bytes of inputs and targets (last " +
                    name(reference, a.last_from_host) + "), rank " + number(rank) +
                    " of the same stage and another data-parallel replica " +
                    number(b.from_host.v) + " (last " + name(rank, b.last_from_host) + ")");
      }
    }
  }

  const Program& program_;
  const Folding& folding_;
  const Traffic& traffic_;
  Faults& faults_;
  std::set<std::tuple<RoleId, RoleId, GroupId>> compared_;  // two roles, group
};

}  // namespace

void check_matching(const Program& program, const Folding& folding, const Traffic& traffic,
                    Faults& faults) {
  Matching(program, folding, traffic, faults).check();
}

}  // namespace lockstep::verification
