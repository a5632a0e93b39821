// RoleRun: how far the ops of one role have been followed, and what its buffers hold there.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "core/base/interval_map.hpp"
#include "core/ir/verify/internal.hpp"
#include "core/ir/verify/meaning.hpp"
#include "core/ir/verify/traffic.hpp"

namespace lockstep::verification {

using UnitNumber = std::int32_t;  // of the units of all roles, by their names

/// What is known of one role while its ops are followed.
struct RoleRun {
  RoleRun(const Program& program, const Role& r, const Ranges& its_ranges);
  const Role& role;
  Rank rank;
  const Ranges& ranges;
  OpId next{0};  // the op that comes next
  Stage stages = 0;
  Microbatch microbatches = 0;
  int layers = 0;
  IndexVector<std::int64_t, IndexArray<Phase, std::uint16_t, 5>> segments;  // functions done
  IndexVector<std::int64_t, std::int32_t> versions;        // of weights, by stage; -1: none
  IndexVector<int, std::int32_t> kind_of_layer;            // as FunctionRole::kind
  IndexVector<int, std::vector<NamedExchange>> exchanges;  // by layer
  IndexVector<int, bool> own_layers;                       // whether a function is the user's
  std::map<GroupId, int> met;                              // collectives with other roles done
  std::map<ChannelEnd, Sequence> received;                 // messages
  IndexVector<GroupId, std::int8_t> meets_others;  // whether members have other roles; -1: unknown
  IndexVector<UnitNumber, int> units;              // index among the role's; -1: it has none such
  OpId loss, norm;  // the ops that make them; their results must leave the rank
  bool loss_copied = false, norm_copied = false;
  bool synchronizing = false;  // whether an op of phase S has come

  // What an op has done that another may repeat, both in the order of the ops.
  struct Awaited {  // what `op` found in its arguments came from the sender of `receive`
    OpId op, receive;
  };
  std::vector<Awaited> awaited;
  struct LossPut {  // bytes [begin, end) of an argument got a loss
    OpId op;
    int argument;
    std::int64_t begin, end;
    Content loss;
  };
  std::vector<LossPut> losses;
  IndexVector<OpId, std::uint8_t> noted;  // 1: `awaited` or `losses` name the op
  std::map<OpId, std::int32_t> receipts;  // by receive

  /// What a root buffer holds.
  IntervalMap<Content>& held(BufferId root);
  /// Forgets what those buffers held of which the op is the last.
  void end_lives(OpId op);

  /// The place of a layer's microbatch in `segments`, or of a stage's in `versions`.
  std::int64_t cell(int row, Microbatch mb) const { return std::int64_t{row} * microbatches + mb; }

 private:
  std::deque<IntervalMap<Content>> contents_;       // of the buffers that live, and of none
  std::vector<std::int32_t> unused_;                // the places of those of none
  IndexVector<BufferId, std::int32_t> content_of_;  // by root, a place; -1: it holds nothing
  using End = std::pair<OpId, BufferId>;            // the last op of a root
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;  // of those that hold something
};

}  // namespace lockstep::verification
