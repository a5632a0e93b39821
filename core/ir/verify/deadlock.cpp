#include <algorithm>
#include <array>
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
  BlockingRun(const Program& program, const Folding& folding, Mode mode)
      : program_(program), folding_(folding), mode_(mode), pp_(program.mesh.index_of("pp")) {
    for (const Role& role : program.roles) {
      traffic_.push_back(traffic_of(role));
      lanes_.push_back(lanes_of(role));
    }
    index_of_.assign(folding.representative_of.size(), -1);
    for (std::size_t i = 0; i < folding.representatives.size(); ++i) {
      index_of_[static_cast<std::size_t>(folding.representatives[i])] = static_cast<int>(i);
      actors_.push_back({folding.representatives[i], {}, {}, {}});
      actors_.back().state.assign(role(static_cast<int>(i)).ops.size(), State::Waiting);
      actors_.back().waits_for.fill(OpId{});
    }
    find_meetings();
  }

  void run() {
    for (std::size_t a = 0; a < actors_.size(); ++a) {
      for (std::size_t lane = 0; lane < kNumStreams; ++lane) {
        ready_.push_back({static_cast<int>(a), lane});
      }
    }
    while (!ready_.empty()) {
      const auto [actor, lane] = ready_.back();
      ready_.pop_back();
      advance(actor, lane);
    }
  }

  /// The ops that wait for each other, in words; empty if every lane came to its end.
  std::string stuck() const {
    for (std::size_t a = 0; a < actors_.size(); ++a) {
      for (std::size_t lane = 0; lane < kNumStreams; ++lane) {
        const Front front{static_cast<int>(a), lane};
        if (blocked(front).valid()) return explain(front);
      }
    }
    return {};
  }

 private:
  enum class State : std::uint8_t { Waiting, Arrived, Done };
  using Lanes = std::array<std::vector<OpId>, kNumStreams>;
  struct Actor {  // a representative rank
    Rank rank;
    std::vector<State> state;  // by op
    std::array<std::size_t, kNumStreams> head{};
    std::array<OpId, kNumStreams> waits_for;  // the dependency that holds up the lane's head
  };
  struct Meeting {  // one group of ranks
    std::vector<int> actors;
    std::vector<int> arrived;  // how many have, by sequence number
  };
  using Front = std::pair<int, std::size_t>;  // actor and lane

  const Role& role(int actor) const {
    return program_.role_of(actors_[static_cast<std::size_t>(actor)].rank);
  }
  const RoleTraffic& traffic(int actor) const { return traffic_[role_index(actor)]; }
  const Lanes& lanes(int actor) const { return lanes_[role_index(actor)]; }
  std::size_t role_index(int actor) const {
    const Rank rank = actors_[static_cast<std::size_t>(actor)].rank;
    return static_cast<std::size_t>(program_.role_of_rank[static_cast<std::size_t>(rank)].v);
  }
  State& state(int actor, OpId id) {
    return actors_[static_cast<std::size_t>(actor)].state[static_cast<std::size_t>(id.v)];
  }
  State state(int actor, OpId id) const {
    return actors_[static_cast<std::size_t>(actor)].state[static_cast<std::size_t>(id.v)];
  }
  std::size_t lane_of(const Op& op) const {
    return mode_ == Mode::Streams ? static_cast<std::size_t>(op.stream) : 0;
  }

  Lanes lanes_of(const Role& role) const {
    Lanes lanes;
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      const Op& op = role.ops[i];
      if (mode_ == Mode::Streams || is_collective(op.kind)) {
        lanes[lane_of(op)].push_back({static_cast<std::int32_t>(i)});
      }
    }
    return lanes;
  }

  void find_meetings() {
    std::map<std::pair<std::int32_t, int>, std::size_t> known;  // group, first actor
    for (std::size_t a = 0; a < actors_.size(); ++a) {
      for (const auto& [group, ops] : traffic(static_cast<int>(a)).by_group) {
        std::vector<int> present;
        for (const Rank rank :
             members(program_.mesh, program_.groups[static_cast<std::size_t>(group)],
                     actors_[a].rank)) {
          const Rank stands_for = folding_.representative_of[static_cast<std::size_t>(rank)];
          present.push_back(index_of_[static_cast<std::size_t>(stands_for)]);
        }
        std::sort(present.begin(), present.end());
        present.erase(std::unique(present.begin(), present.end()), present.end());
        const auto [entry, fresh] = known.try_emplace({group, present[0]}, meetings_.size());
        if (fresh) meetings_.push_back({present, std::vector<int>(ops.size(), 0)});
        meeting_of_[{static_cast<int>(a), group}] = entry->second;
      }
    }
  }

  void advance(int actor, std::size_t lane) {
    Actor& self = actors_[static_cast<std::size_t>(actor)];
    const std::vector<OpId>& queue = lanes(actor)[lane];
    while (self.head[lane] < queue.size()) {
      const OpId id = queue[self.head[lane]];
      if (state(actor, id) == State::Arrived) return;
      const Op& op = role(actor).op(id);
      self.waits_for[lane] = unfinished_dependency(actor, op);
      if (self.waits_for[lane].valid()) return;
      if (is_collective(op.kind)) return meet(actor, op, id);
      if (is_p2p(op.kind)) return exchange(actor, op, id);
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
    Actor& self = actors_[static_cast<std::size_t>(actor)];
    state(actor, id) = State::Done;
    ++self.head[lane_of(role(actor).op(id))];
    for (std::size_t lane = 0; lane < kNumStreams; ++lane) {
      if (self.waits_for[lane] == id) ready_.push_back({actor, lane});
    }
  }
  void finish_and_continue(int actor, OpId id) {
    finish(actor, id);
    ready_.push_back({actor, lane_of(role(actor).op(id))});
  }

  void meet(int actor, const Op& op, OpId id) {
    state(actor, id) = State::Arrived;
    Meeting& meeting = meetings_[meeting_of_.at({actor, op.target})];
    const auto sequence =
        static_cast<std::size_t>(traffic(actor).sequence[static_cast<std::size_t>(id.v)]);
    if (++meeting.arrived[sequence] < static_cast<int>(meeting.actors.size())) return;
    for (const int member : meeting.actors) {
      finish_and_continue(member, traffic(member).by_group.at(op.target)[sequence]);
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
    const Rank rank = actors_[static_cast<std::size_t>(actor)].rank;
    const Rank peer_rank = folding_.representative_of[static_cast<std::size_t>(
        program_.mesh.with_coordinate(rank, pp_, op.peer()))];
    const int peer = index_of_[static_cast<std::size_t>(peer_rank)];
    const ChannelEnd opposite = {op.kind == OpKind::Send ? OpKind::Recv : OpKind::Send,
                                 program_.mesh.coordinate(rank, pp_), direction(op)};
    const auto sequence =
        static_cast<std::size_t>(traffic(actor).sequence[static_cast<std::size_t>(id.v)]);
    return {peer, traffic(peer).by_channel.at(opposite)[sequence]};
  }

  /// The op at the head of a lane; invalid if the lane came to its end.
  OpId blocked(const Front& front) const {
    const auto& queue = lanes(front.first)[front.second];
    const std::size_t head = actors_[static_cast<std::size_t>(front.first)].head[front.second];
    return head < queue.size() ? queue[head] : OpId{};
  }

  /// The lane that must move before this one can.
  Front cause(const Front& front) const {
    const int actor = front.first;
    const OpId id = blocked(front);
    const Op& op = role(actor).op(id);
    if (state(actor, id) == State::Waiting) {
      const OpId dependency = actors_[static_cast<std::size_t>(actor)].waits_for[front.second];
      return {actor, lane_of(role(actor).op(dependency))};
    }
    if (is_p2p(op.kind)) {
      const auto [peer, other] = partner(actor, op, id);
      return {peer, lane_of(role(peer).op(other))};
    }
    const auto sequence =
        static_cast<std::size_t>(traffic(actor).sequence[static_cast<std::size_t>(id.v)]);
    for (const int member : meetings_[meeting_of_.at({actor, op.target})].actors) {
      const OpId other = traffic(member).by_group.at(op.target)[sequence];
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
      const Actor& actor = actors_[static_cast<std::size_t>(path[i].first)];
      text += (i == 0 ? "" : " waits for ") + op_at(program_, actor.rank, blocked(path[i]));
    }
    if (path.size() > kShown) text += " and so on, " + std::to_string(path.size()) + " ops,";
    return text + (path.size() > 1 ? ", which waits for the first" : " waits for itself");
  }

  const Program& program_;
  const Folding& folding_;
  Mode mode_;
  int pp_;
  std::vector<RoleTraffic> traffic_;  // by role
  std::vector<Lanes> lanes_;          // by role
  std::vector<int> index_of_;         // by rank: its place in actors_; -1: not a representative
  std::vector<Actor> actors_;
  std::vector<Meeting> meetings_;
  std::map<std::pair<int, std::int32_t>, std::size_t> meeting_of_;  // by actor and group
  std::vector<Front> ready_;
};

}  // namespace

void check_deadlock(const Program& program, const Folding& folding, Faults& faults) {
  for (const Mode mode : {Mode::Streams, Mode::Collectives}) {
    BlockingRun run(program, folding, mode);
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
