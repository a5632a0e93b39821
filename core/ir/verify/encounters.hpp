// Encounters: which ops of different ranks meet, as messages and collectives.
#pragma once

#include <utility>
#include <vector>

#include "core/ir/program.hpp"
#include "core/ir/verify/traffic.hpp"

namespace lockstep::verification {

/// What the ranks that represent all others do together. These ranks are actors. Requires that
/// check_matching() found nothing.
class Encounters {
 public:
  static constexpr std::int32_t kAlone = -1;

  Encounters(const Program& program, const Folding& folding, const Traffic& traffic);

  Indices<int> actors() const { return ranks_.ids(); }
  Rank rank(int actor) const { return ranks_[actor]; }
  RoleId role_id(int actor) const { return program_.role_of_rank[ranks_[actor]]; }
  const Role& role(int actor) const { return program_.roles[role_id(actor)]; }

  struct Meeting {  // one group of ranks
    std::vector<int> actors;
    Sequence collectives = 0;  // how many they have
  };
  const IndexVector<std::int32_t, Meeting>& meetings() const { return meetings_; }
  /// The meeting of an actor's group; kAlone if one actor stands for all of its ranks.
  std::int32_t meeting_of(int actor, GroupId group) const {
    return meeting_of_[place(actor, group)];
  }
  /// Which of its meeting's collectives an op is, and the op of a member that is the same one.
  Sequence sequence(int actor, OpId id) const { return traffic(actor).sequence[id]; }
  OpId op_of(int actor, GroupId group, Sequence sequence) const {
    return traffic(actor).by_group.at(group)[sequence];
  }
  /// The other end of a message.
  std::pair<int, OpId> partner(int actor, const Op& op, OpId id) const;

 private:
  const RoleTraffic& traffic(int actor) const { return traffic_[role_id(actor)]; }
  std::size_t place(int actor, GroupId group) const {
    return to_size(actor) * program_.groups.size() + to_size(group);
  }

  const Program& program_;
  const Folding& folding_;
  const Traffic& traffic_;
  int pp_;
  IndexVector<int, Rank> ranks_;                 // by actor
  IndexVector<Rank, int> index_of_;              // its place in ranks_; -1: not a representative
  IndexVector<std::int32_t, Meeting> meetings_;  // of two actors or more
  std::vector<std::int32_t> meeting_of_;         // by actor and group (place)
};

}  // namespace lockstep::verification
