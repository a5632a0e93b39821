// Traffic: who meets whom. The k-th collective of a rank in a group meets the k-th of every other
// member; the k-th send of a channel meets the k-th receive. Requires that check_structure() found
// nothing.
#pragma once

#include <compare>
#include <map>
#include <vector>

#include "core/ir/program.hpp"

namespace lockstep::verification {

/// The direction of a message along the pipeline, which its stream tells. Messages from one rank to
/// another keep their order within a direction. A broadcast counts as messages to all members.
enum class Direction : std::uint8_t { Forward, Backward, Other, ToAll };
Direction direction(const Op& op);

/// One end of a channel, as the role at that end sees it. A channel carries the messages from one
/// rank to another in one direction.
struct ChannelEnd {
  OpKind kind = OpKind::Send;  // Send, Recv or Broadcast
  int peer = 0;                // coordinate along "pp"
  Direction direction = Direction::Forward;
  auto operator<=>(const ChannelEnd&) const = default;
};

using Sequence = std::int32_t;  // a place among the collectives of a group, or a channel's messages

/// A role's collectives by group and its messages by channel, in list order.
struct RoleTraffic {
  std::map<GroupId, IndexVector<Sequence, OpId>> by_group;
  std::map<ChannelEnd, IndexVector<Sequence, OpId>> by_channel;
  IndexVector<OpId, Sequence> sequence;  // of each op in its list; -1: a call or a copy
};
using Traffic = IndexVector<RoleId, RoleTraffic>;
Traffic traffic_of(const Program& program);

inline ChannelEnd channel_end(const Op& op) { return {op.kind, op.peer(), direction(op)}; }

}  // namespace lockstep::verification
