#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "core/ir/verify/internal.hpp"
#include "core/ir/verify/traffic.hpp"

namespace lockstep::verification {
namespace {

enum class Mode {
  Streams,     // every stream runs in order, and every `after` is kept
  Collectives  // a rank's collectives run one after the other in list order, as NCCL may run them
};

/// Runs the ranks that represent all others, without time: an op that meets others blocks its lane
/// until they are all there. One run decides whether there is a deadlock, because an op that can
/// run still can after any other has run.
class BlockingRun {
 public:
  BlockingRun(const Program& program, const Folding& folding, const Traffic& traffic, Mode mode)
      : program_(program),
        folding_(folding),
        mode_(mode),
        pp_(program.mesh.index_of("pp")),
        traffic_(traffic) {
    for (const Role& role : program.roles) lanes_.push_back(lanes_of(role));
    index_of_.assign(folding.representative_of.size(), -1);
    for (const Rank rank : folding.representatives) {
      index_of_[rank] = actors_.next();
      actors_.push_back({rank, {}, {}, {}, 0});
      actors_.back().state.assign(program.role_of(rank).ops.size(), State::Waiting);
      actors_.back().waits_for.fill(OpId{});
    }
    find_meetings();
  }

  void run() {
    for (const int actor : actors_.ids()) {
      for (const Stream lane : Lanes::ids()) ready_.push_back({actor, lane});
    }
    while (!ready_.empty()) {
      const auto [actor, lane] = ready_.back();
      ready_.pop_back();
      advance(actor, lane);
    }
  }

  /// The ops that wait for each other, in words; empty if every lane came to its end.
  std::string stuck() const {
    for (const int actor : actors_.ids()) {
      for (const Stream lane : Lanes::ids()) {
        const Front front{actor, lane};
        if (blocked(front).valid()) return explain(front);
      }
    }
    return {};
  }

 private:
  enum class State : std::uint8_t { Waiting, Arrived, Done };
  using Lanes = IndexArray<Stream, std::vector<OpId>, kNumStreams>;
  struct Actor {  // a representative rank
    Rank rank;
    IndexVector<OpId, State> state;
    IndexArray<Stream, std::size_t, kNumStreams> head{};
    IndexArray<Stream, OpId, kNumStreams> waits_for;  // the op that holds up the lane's head
    std::uint32_t waiting = 0;                        // the lanes that have one, as bits
  };
  struct Meeting {  // one group of ranks
    std::vector<int> actors;
    IndexVector<Sequence, int> arrived;  // how many have
  };
  using Front = std::pair<int, Stream>;  // actor and lane

  const Role& role(int actor) const { return program_.roles[role_id(actor)]; }
  const RoleTraffic& traffic(int actor) const { return traffic_[role_id(actor)]; }
  const Lanes& lanes(int actor) const { return lanes_[role_id(actor)]; }
  RoleId role_id(int actor) const { return program_.role_of_rank[actors_[actor].rank]; }
  State& state(int actor, OpId id) { return actors_[actor].state[id]; }
  State state(int actor, OpId id) const { return actors_[actor].state[id]; }
  /// The lane of an op is its stream, or one lane that all collectives share.
  Stream lane_of(const Op& op) const { return mode_ == Mode::Streams ? op.stream : Stream{}; }

  Lanes lanes_of(const Role& role) const {
    Lanes lanes;
    for (const OpId id : role.ops.ids()) {
      const Op& op = role.op(id);
      if (mode_ == Mode::Streams || is_collective(op.kind)) lanes[lane_of(op)].push_back(id);
    }
    return lanes;
  }

  void find_meetings() {
    std::map<std::pair<GroupId, int>, std::int32_t> known;  // by group and first actor
    meeting_of_.assign(actors_.size() * program_.groups.size(), kAlone);
    for (const int a : actors_.ids()) {
      for (const auto& [group, ops] : traffic(a).by_group) {
        std::vector<int> present;
        for (const Rank rank : members(program_.mesh, program_.group(group), actors_[a].rank)) {
          const Rank stands_for = folding_.representative_of[rank];
          present.push_back(index_of_[stands_for]);
        }
        std::sort(present.begin(), present.end());
        present.erase(std::unique(present.begin(), present.end()), present.end());
        if (present.size() < 2) continue;
        const auto [entry, fresh] = known.try_emplace({group, present[0]}, meetings_.next());
        if (fresh) meetings_.push_back({present, IndexVector<Sequence, int>(ops.size(), 0)});
        meeting_of_[place(a, group)] = entry->second;
      }
    }
  }

  /// The meeting of an actor's group; kAlone if one actor stands for all of its ranks.
  std::int32_t meeting_of(int actor, GroupId group) const {
    return meeting_of_[place(actor, group)];
  }
  std::size_t place(int actor, GroupId group) const {
    return to_size(actor) * program_.groups.size() + to_size(group);
  }

  void advance(int actor, Stream lane) {
    Actor& self = actors_[actor];
    const std::vector<OpId>& queue = lanes(actor)[lane];
    while (self.head[lane] < queue.size()) {
      const OpId id = queue[self.head[lane]];
      if (state(actor, id) == State::Arrived) return;
      const Op& op = role(actor).op(id);
      const std::uint32_t bit = 1u << static_cast<unsigned>(lane);
      self.waiting &= ~bit;
      self.waits_for[lane] = unfinished_dependency(actor, op);
      if (self.waits_for[lane].valid()) {
        self.waiting |= bit;
        return;
      }
      if (is_collective(op.kind)) {
        const std::int32_t meeting = meeting_of(actor, op.group());
        if (meeting != kAlone) return meet(actor, op, id, meetings_[meeting]);
      } else if (is_p2p(op.kind)) {
        return exchange(actor, op, id);
      }
      finish(actor, id);
    }
  }

  OpId unfinished_dependency(int actor, const Op& op) const {
    if (mode_ == Mode::Collectives) return {};
    for (const OpId dependency : role(actor).after_of(op)) {
      if (state(actor, dependency) != State::Done) return dependency;
    }
    return {};
  }

  // Ends the op at the head of its lane, and wakes the lanes that wait for it.
  void finish(int actor, OpId id) {
    Actor& self = actors_[actor];
    state(actor, id) = State::Done;
    ++self.head[lane_of(role(actor).op(id))];
    for (std::uint32_t left = self.waiting; left != 0; left &= left - 1) {
      const auto lane = static_cast<Stream>(std::countr_zero(left));
      if (self.waits_for[lane] == id) ready_.push_back({actor, lane});
    }
  }
  void finish_and_continue(int actor, OpId id) {
    finish(actor, id);
    ready_.push_back({actor, lane_of(role(actor).op(id))});
  }

  void meet(int actor, const Op& op, OpId id, Meeting& meeting) {
    state(actor, id) = State::Arrived;
    const Sequence sequence = traffic(actor).sequence[id];
    if (++meeting.arrived[sequence] < static_cast<int>(meeting.actors.size())) return;
    for (const int member : meeting.actors) {
      finish_and_continue(member, traffic(member).by_group.at(op.group())[sequence]);
    }
  }

  void exchange(int actor, const Op& op, OpId id) {
    state(actor, id) = State::Arrived;
    const auto [peer, other] = partner(actor, op, id);
    if (state(peer, other) != State::Arrived) return;
    finish_and_continue(actor, id);
    finish_and_continue(peer, other);
  }

  std::pair<int, OpId> partner(int actor, const Op& op, OpId id) const {
    const Rank rank = actors_[actor].rank;
    const Rank peer_rank =
        folding_.representative_of[program_.mesh.with_coordinate(rank, pp_, op.peer())];
    const int peer = index_of_[peer_rank];
    const ChannelEnd opposite = {op.kind == OpKind::Send ? OpKind::Recv : OpKind::Send,
                                 program_.mesh.coordinate(rank, pp_), direction(op)};
    const Sequence sequence = traffic(actor).sequence[id];
    return {peer, traffic(peer).by_channel.at(opposite)[sequence]};
  }

  /// The op at the head of a lane; invalid if the lane came to its end.
  OpId blocked(const Front& front) const {
    const auto& queue = lanes(front.first)[front.second];
    const std::size_t head = actors_[front.first].head[front.second];
    return head < queue.size() ? queue[head] : OpId{};
  }

  /// The lane that must move before this one can.
  Front cause(const Front& front) const {
    const int actor = front.first;
    const OpId id = blocked(front);
    const Op& op = role(actor).op(id);
    if (state(actor, id) == State::Waiting) {
      const OpId dependency = actors_[actor].waits_for[front.second];
      return {actor, lane_of(role(actor).op(dependency))};
    }
    if (is_p2p(op.kind)) {
      const auto [peer, other] = partner(actor, op, id);
      return {peer, lane_of(role(peer).op(other))};
    }
    const Sequence sequence = traffic(actor).sequence[id];
    for (const int member : meetings_[meeting_of(actor, op.group())].actors) {
      const OpId other = traffic(member).by_group.at(op.group())[sequence];
      if (state(member, other) == State::Waiting) {
        return {member, lane_of(role(member).op(other))};
      }
    }
    return front;
  }

  std::string explain(Front front) const {
    std::vector<Front> path;
    while (std::find(path.begin(), path.end(), front) == path.end()) {
      path.push_back(front);
      front = cause(front);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), front));
    std::string text;
    constexpr std::size_t kShown = 8;
    for (std::size_t i = 0; i < path.size() && i < kShown; ++i) {
      const Actor& actor = actors_[path[i].first];
      text += (i == 0 ? "" : " waits for ") + op_at(program_, actor.rank, blocked(path[i]));
    }
    if (path.size() > kShown) text += " and so on, " + std::to_string(path.size()) + " ops,";
    return text + (path.size() > 1 ? ", which waits for the first" : " waits for itself");
  }

  const Program& program_;
  const Folding& folding_;
  Mode mode_;
  int pp_;
  const Traffic& traffic_;
  IndexVector<RoleId, Lanes> lanes_;
  IndexVector<Rank, int> index_of_;  // its place in actors_; -1: not a representative
  IndexVector<int, Actor> actors_;
  static constexpr std::int32_t kAlone = -1;
  IndexVector<std::int32_t, Meeting> meetings_;  // of two actors or more
  std::vector<std::int32_t> meeting_of_;         // by actor and group (place)
  std::vector<Front> ready_;
};

}  // namespace

void check_deadlock(const Program& program, const Folding& folding, const Traffic& traffic,
                    Faults& faults) {
  for (const Mode mode : {Mode::Streams, Mode::Collectives}) {
    BlockingRun run(program, folding, traffic, mode);
    run.run();
    const std::string stuck = run.stuck();
    if (stuck.empty()) continue;
    faults.add((mode == Mode::Streams
                    ? "deadlock: "
                    : "no total order of collectives: issued in list order they deadlock: ") +
               stuck);
  }
}

}  // namespace lockstep::verification
