#include <algorithm>
#include <bit>
#include <utility>

#include "core/ir/verify/encounters.hpp"
#include "core/ir/verify/internal.hpp"

namespace lockstep::verification {
namespace {

enum class State : std::uint8_t { Waiting, Arrived, Done };

/// Runs the actors in the order of their lists, without time. A message is under way from where the
/// list has come to one end of it until the other list has come to the other. Meanwhile a list goes
/// on to what need not wait for it, but waits for the others at each collective with them.
class ListRun {
 public:
  ListRun(const Program& program, const Encounters& encounters) : encounters_(encounters) {
    for (const int a : encounters.actors()) {
      actors_.push_back({encounters.role(a), program.groups.size()});
      for (const GroupId group : program.groups.ids()) {
        actors_.back().meeting_of[group] = encounters.meeting_of(a, group);
      }
    }
    for (const Encounters::Meeting& meeting : encounters.meetings()) {
      arrived_.emplace_back(meeting.collectives, 0);
    }
  }

  /// Whether all lists come to their end. The order in which ops have ended then keeps to that of
  /// streams and to every `after`, and to the order of each rank's collectives. So there is no
  /// deadlock in either mode of BlockingRun. If they do not, there may be none.
  bool ends() {
    for (const int actor : actors_.ids()) ready_.push_back(actor);
    while (!ready_.empty()) {
      const int actor = ready_.back();
      ready_.pop_back();
      advance(actor);
    }
    return std::all_of(actors_.begin(), actors_.end(),
                       [](const Actor& a) { return a.next == a.role.ops.next(); });
  }

 private:
  struct Actor {
    Actor(const Role& r, std::size_t groups)
        : role(r), state(r.ops.size(), State::Waiting), meeting_of(groups) {}
    const Role& role;
    IndexVector<OpId, State> state;  // of what meets others
    IndexVector<GroupId, std::int32_t> meeting_of;
    OpId next{0};
    OpId awaited;                                     // holds up the list
    IndexArray<Stream, OpId, kNumStreams> message{};  // the newest of the stream, or none
  };

  void advance(int actor) {
    Actor& self = actors_[actor];
    for (const OpId end = self.role.ops.next(); self.next < end; ++self.next.v) {
      const OpId id = self.next;
      const Op& op = self.role.op(id);
      if (self.message[op.stream].valid() && under_way(self, self.message[op.stream])) return;
      for (const OpId dependency : self.role.after_of(op)) {
        if (under_way(self, dependency)) return;
      }
      if (is_p2p(op.kind)) {
        self.message[op.stream] = id;
        self.state[id] = State::Arrived;
        const auto [peer, other] = encounters_.partner(actor, op, id);
        if (actors_[peer].state[other] != State::Arrived) continue;
        finish(actor, id);
        finish(peer, other);
      } else if (is_collective(op.kind) && self.state[id] == State::Waiting) {
        const std::int32_t meeting = self.meeting_of[op.group()];
        if (meeting == Encounters::kAlone) continue;
        const std::vector<int>& members = encounters_.meetings()[meeting].actors;
        const Sequence sequence = encounters_.sequence(actor, id);
        self.state[id] = State::Arrived;
        self.awaited = id;
        if (++arrived_[meeting][sequence] < static_cast<int>(members.size())) return;
        for (const int member : members) {
          finish(member, encounters_.op_of(member, op.group(), sequence));
        }
        return;  // it is ready again
      }
    }
  }

  /// Whether a message has not come to its other end. Then the list waits for it.
  static bool under_way(Actor& self, OpId id) {
    if (self.state[id] != State::Arrived) return false;
    self.awaited = id;
    return true;
  }

  void finish(int actor, OpId id) {
    Actor& self = actors_[actor];
    self.state[id] = State::Done;
    if (self.awaited != id) return;
    self.awaited = {};
    ready_.push_back(actor);
  }

  const Encounters& encounters_;
  IndexVector<int, Actor> actors_;
  IndexVector<std::int32_t, IndexVector<Sequence, int>> arrived_;  // how many have, by meeting
  std::vector<int> ready_;
};

enum class Mode {
  Streams,     // every stream runs in order, and every `after` is kept
  Collectives  // a rank's collectives run one after the other in list order, as NCCL may run them
};

/// Runs the actors without time: an op that meets others blocks its lane until they are all there.
/// One run decides whether there is a deadlock, because an op that can run still can after any
/// other has run.
class BlockingRun {
 public:
  BlockingRun(const Program& program, const Encounters& encounters, Mode mode)
      : program_(program), encounters_(encounters), mode_(mode) {
    for (const Role& role : program.roles) lanes_.push_back(lanes_of(role));
    for (const int a : encounters.actors()) {
      const Role& role = encounters.role(a);
      actors_.push_back(
          {role, IndexVector<OpId, State>(role.ops.size(), State::Waiting), {}, {}, 0});
      actors_.back().waits_for.fill(OpId{});
    }
    for (const Encounters::Meeting& meeting : encounters.meetings()) {
      arrived_.emplace_back(meeting.collectives, 0);
    }
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
  using Lanes = IndexArray<Stream, std::vector<OpId>, kNumStreams>;
  struct Actor {
    const Role& role;
    IndexVector<OpId, State> state;
    IndexArray<Stream, std::size_t, kNumStreams> head{};
    IndexArray<Stream, OpId, kNumStreams> waits_for;  // the op that holds up the lane's head
    std::uint32_t waiting = 0;                        // the lanes that have one, as bits
  };
  using Front = std::pair<int, Stream>;  // actor and lane

  const Role& role(int actor) const { return actors_[actor].role; }
  const Lanes& lanes(int actor) const { return lanes_[encounters_.role_id(actor)]; }
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

  void advance(int actor, Stream lane) {
    Actor& self = actors_[actor];
    const std::vector<OpId>& queue = lanes(actor)[lane];
    const std::uint32_t bit = 1u << static_cast<unsigned>(lane);
    while (self.head[lane] < queue.size()) {
      const OpId id = queue[self.head[lane]];
      if (self.state[id] == State::Arrived) return;
      const Op& op = self.role.op(id);
      self.waits_for[lane] = unfinished_dependency(self, op);
      if (self.waits_for[lane].valid()) {
        self.waiting |= bit;
        return;
      }
      self.waiting &= ~bit;
      if (is_collective(op.kind)) {
        const std::int32_t meeting = encounters_.meeting_of(actor, op.group());
        if (meeting != Encounters::kAlone) return meet(actor, op, id, meeting);
      } else if (is_p2p(op.kind)) {
        return exchange(actor, op, id);
      }
      finish(actor, id, lane);
    }
  }

  OpId unfinished_dependency(const Actor& actor, const Op& op) const {
    if (mode_ == Mode::Collectives) return {};
    for (const OpId dependency : actor.role.after_of(op)) {
      if (actor.state[dependency] != State::Done) return dependency;
    }
    return {};
  }

  // Ends the op at the head of its lane, and wakes the lanes that wait for it.
  void finish(int actor, OpId id, Stream lane) {
    Actor& self = actors_[actor];
    self.state[id] = State::Done;
    ++self.head[lane];
    for (std::uint32_t left = self.waiting; left != 0; left &= left - 1) {
      const auto other = static_cast<Stream>(std::countr_zero(left));
      if (self.waits_for[other] == id) ready_.push_back({actor, other});
    }
  }
  void finish_and_continue(int actor, OpId id) {
    const Stream lane = lane_of(role(actor).op(id));
    finish(actor, id, lane);
    ready_.push_back({actor, lane});
  }

  void meet(int actor, const Op& op, OpId id, std::int32_t meeting) {
    actors_[actor].state[id] = State::Arrived;
    const Sequence sequence = encounters_.sequence(actor, id);
    const std::vector<int>& members = encounters_.meetings()[meeting].actors;
    if (++arrived_[meeting][sequence] < static_cast<int>(members.size())) return;
    for (const int member : members) {
      finish_and_continue(member, encounters_.op_of(member, op.group(), sequence));
    }
  }

  void exchange(int actor, const Op& op, OpId id) {
    actors_[actor].state[id] = State::Arrived;
    const auto [peer, other] = encounters_.partner(actor, op, id);
    if (state(peer, other) != State::Arrived) return;
    finish_and_continue(actor, id);
    finish_and_continue(peer, other);
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
      const auto [peer, other] = encounters_.partner(actor, op, id);
      return {peer, lane_of(role(peer).op(other))};
    }
    const Sequence sequence = encounters_.sequence(actor, id);
    const std::int32_t meeting = encounters_.meeting_of(actor, op.group());
    for (const int member : encounters_.meetings()[meeting].actors) {
      const OpId other = encounters_.op_of(member, op.group(), sequence);
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
      const Rank rank = encounters_.rank(path[i].first);
      text += (i == 0 ? "" : " waits for ") + op_at(program_, rank, blocked(path[i]));
    }
    if (path.size() > kShown) text += " and so on, " + std::to_string(path.size()) + " ops,";
    return text + (path.size() > 1 ? ", which waits for the first" : " waits for itself");
  }

  const Program& program_;
  const Encounters& encounters_;
  Mode mode_;
  IndexVector<RoleId, Lanes> lanes_;
  IndexVector<int, Actor> actors_;
  IndexVector<std::int32_t, IndexVector<Sequence, int>> arrived_;  // how many have, by meeting
  std::vector<Front> ready_;
};

}  // namespace

void check_deadlock(const Program& program, const Folding& folding, const Traffic& traffic,
                    Faults& faults) {
  const Encounters encounters(program, folding, traffic);
  if (ListRun(program, encounters).ends()) return;
  for (const Mode mode : {Mode::Streams, Mode::Collectives}) {
    BlockingRun run(program, encounters, mode);
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
