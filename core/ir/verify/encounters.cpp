#include "core/ir/verify/encounters.hpp"

#include <algorithm>
#include <map>

namespace lockstep::verification {

Encounters::Encounters(const Program& program, const Folding& folding, const Traffic& traffic)
    : program_(program),
      folding_(folding),
      traffic_(traffic),
      pp_(program.mesh.index_of("pp")),
      ranks_(std::vector<Rank>(folding.representatives)) {
  index_of_.assign(folding.representative_of.size(), -1);
  for (const int a : ranks_.ids()) index_of_[ranks_[a]] = a;
  std::map<std::pair<GroupId, int>, std::int32_t> known;  // by group and first actor
  meeting_of_.assign(ranks_.size() * program_.groups.size(), kAlone);
  for (const int a : ranks_.ids()) {
    for (const auto& [group, ops] : this->traffic(a).by_group) {
      std::vector<int> present;
      for (const Rank rank : members(program_.mesh, program_.group(group), ranks_[a])) {
        const Rank stands_for = folding_.representative_of[rank];
        present.push_back(index_of_[stands_for]);
      }
      std::sort(present.begin(), present.end());
      present.erase(std::unique(present.begin(), present.end()), present.end());
      if (present.size() < 2) continue;
      const auto [entry, fresh] = known.try_emplace({group, present[0]}, meetings_.next());
      if (fresh) meetings_.push_back({present, static_cast<Sequence>(ops.size())});
      meeting_of_[place(a, group)] = entry->second;
    }
  }
}

std::pair<int, OpId> Encounters::partner(int actor, const Op& op, OpId id) const {
  const Rank rank = ranks_[actor];
  const Rank peer_rank =
      folding_.representative_of[program_.mesh.with_coordinate(rank, pp_, op.peer())];
  const int peer = index_of_[peer_rank];
  const ChannelEnd opposite = {op.kind == OpKind::Send ? OpKind::Recv : OpKind::Send,
                               program_.mesh.coordinate(rank, pp_), direction(op)};
  return {peer, traffic(peer).by_channel.at(opposite)[sequence(actor, id)]};
}

}  // namespace lockstep::verification
