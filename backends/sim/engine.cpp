#include "backends/sim/engine.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "backends/sim/engine_state.hpp"
#include "backends/sim/event_heap.hpp"
#include "backends/sim/op_durations.hpp"
#include "backends/sim/plan.hpp"
#include "backends/sim/port_shares.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::sim {
namespace {

/// Calls visit(i) for every bit i that is set, from the lowest on.
template <class Visit>
void for_each_bit(std::uint32_t bits, Visit&& visit) {
  for (; bits != 0; bits &= bits - 1) visit(static_cast<std::uint32_t>(std::countr_zero(bits)));
}

constexpr std::int64_t kEndOfTime = std::int64_t{1} << 62;  // picoseconds: 53 days

class Engine {
 public:
  Engine(const Program& program, const ClusterSpec& cluster, const WhatIfSpec& what_if,
         const Plan& plan, Timeline& timeline)
      : program_(program),
        cluster_(cluster),
        plan_(plan),
        meetings_(plan.instances.size()),
        num_pp_(to_size(program.mesh.size_of("pp"))),
        overlap_(std::max(1.0, cluster.device.overlap_slowdown)),
        fluid_(plan.crowded_devices || plan.shared_ports || overlap_ > 1),
        shares_(plan.shared_ports ? plan.folding.representatives.size() * kPortsOfRank : 0,
                plan.shared_ports ? plan.folding.representatives.size() * kNumStreams : 0),
        durations_(program, cluster, what_if, plan) {
    set_up(timeline);
  }

  Result<void> run() {
    for (std::uint32_t c = 0; c < cells_.size(); ++c) {
      if (cells_[c].count > 0) ready_.push_back(c);
    }
    for (;;) {
      while (!ready_.empty()) {
        const std::uint32_t c = ready_.back();
        ready_.pop_back();
        advance(c);
      }
      if (heap_.empty()) break;
      const SimEvent event = heap_.pop();
      if (event.time < now_ || event.time > kEndOfTime) return too_long();
      const std::uint32_t c = event.key >> 1;
      if (event.key & 1u) {
        now_ = event.time;
        arrive(c);
      } else if (!fluid_ || event.version == activities_[c].version) {
        now_ = event.time;
        complete(c);
      }
    }
    if (unfinished_ > 0) return stuck();
    return {};
  }

  /// A sum of durations that overflows lies before now.
  Error too_long() const {
    return invalid("the step takes longer than the simulator's clock reaches, 53 days: after " +
                   std::to_string(to_seconds(SimTime{now_}).v) +
                   " s a cost or a latency is too large for it");
  }

  std::int64_t makespan() const { return makespan_; }
  std::vector<SimTime> slowed() const {
    std::vector<SimTime> times;
    for (const SimRank& r : ranks_) times.emplace_back(r.slowed);
    return times;
  }

 private:
  void set_up(Timeline& timeline) {
    const auto& ranks = plan_.folding.representatives;
    timeline.times.resize(ranks.size());
    ranks_.resize(ranks.size());
    cells_.resize(ranks.size() * kNumStreams);
    if (fluid_) activities_.resize(cells_.size());
    for (std::uint32_t i = 0; i < ranks.size(); ++i) {
      SimRank& r = ranks_[i];
      const RoleId role = program_.role_of_rank[ranks[i]];
      r.role = &program_.roles[role];
      r.plan = &plan_.roles[role];
      r.rank = ranks[i];
      r.duration = (r.rank == plan_.straggler ? plan_.slow_duration : plan_.duration).data();
      r.device = static_cast<std::uint32_t>(r.rank / std::max(1, cluster_.ranks_per_device));
      std::fill(std::begin(r.waits_for), std::end(r.waits_for), -1);
      timeline.times[i].resize(r.role->ops.size(), OpTiming{{}, SimTime{-1}});
      r.times = timeline.times[i].data();
      unfinished_ += static_cast<std::int64_t>(r.role->ops.size());
      for (std::uint32_t s = 0; s < kNumStreams; ++s) {
        Cell& cell = cells_[i * kNumStreams + s];
        cell.order = r.plan->order.data() + r.plan->begin[s];
        cell.count = r.plan->begin[s + 1] - r.plan->begin[s];
        cell.rank = i;
      }
      if (r.device >= running_on_.size()) {
        running_on_.resize(r.device + 1, 0);
        ranks_on_.resize(r.device + 1);
      }
      ranks_on_[r.device].push_back(i);
    }
    timeline.num_ops = unfinished_;
  }

  const Op& front_op(const Cell& cell) const {
    return ranks_[cell.rank].role->ops[cell.order[cell.front]];
  }
  OpTiming& front_times(const Cell& cell) {
    return ranks_[cell.rank].times[cell.order[cell.front]];
  }
  std::uint32_t stream_of(std::uint32_t c) const { return c - cells_[c].rank * kNumStreams; }

  /// Called when a stream is free: starts its front op, or notes what that op waits for.
  void advance(std::uint32_t c) {
    Cell& cell = cells_[c];
    SimRank& r = ranks_[cell.rank];
    const Op& op = front_op(cell);
    for (const OpId dependency : r.role->after_of(op)) {
      if (r.times[dependency.v].end.count() < 0) {
        r.waits_for[stream_of(c)] = dependency.v;
        r.waiting |= 1u << stream_of(c);
        cell.waited = true;
        return;
      }
    }
    const std::int64_t woken = std::exchange(cell.waited, false) ? plan_.hand_over : 0;
    if (op.kind == OpKind::Call) {
      const std::uint32_t id = cell.order[cell.front];
      const std::int64_t time = woken + durations_.of_call(op, r.duration, r.rank, id);
      start(c, op.stream == Stream::Host ? time : std::max(time, until_launched(r, op, id)));
    } else if (is_p2p(op.kind)) {
      reach_peer(c, op);
    } else if (is_collective(op.kind)) {
      reach_group(c, op);
    } else {
      start(c, durations_.of_copy(*r.role, op));
    }
  }

  /// Until the host has launched the last kernel of a call. The host itself waits for the messages
  /// that a call reads, before it launches that call.
  std::int64_t until_launched(SimRank& r, const Op& op, std::uint32_t id) {
    const std::vector<std::int64_t>& launched = r.plan->launched;
    if (launched.empty()) return 0;
    const std::int64_t before = id == 0 ? 0 : launched[id - 1];
    for (const OpId dependency : r.role->after_of(op)) {
      if (r.role->ops[dependency].kind != OpKind::Recv) continue;
      r.host_late = std::max(r.host_late, r.times[dependency.v].end.count() - before);
    }
    return launched[id] + r.host_late - now_;
  }

  void reach_group(std::uint32_t c, const Op& op) {
    Cell& cell = cells_[c];
    const std::int32_t seq = ranks_[cell.rank].plan->seq[cell.order[cell.front]];
    const std::uint32_t instance =
        plan_.instance_of[cell.rank * program_.groups.size() + to_size(op.group())];
    std::vector<Meeting>& open = meetings_[instance];
    auto meeting =
        std::find_if(open.begin(), open.end(), [seq](const Meeting& m) { return m.seq == seq; });
    if (meeting == open.end()) meeting = open.insert(open.end(), Meeting{seq, 0, kNone});
    cell.state = Cell::Waiting;
    cell.next = meeting->last;
    meeting->last = c;
    if (++meeting->arrivals < plan_.instances[instance].arrivals) return;
    *meeting = open.back();
    open.pop_back();
    // Threads wait before it, for the last that arrives, and for the last that leaves.
    const SimRank& r = ranks_[cell.rank];
    start(c, 3 * plan_.hand_over +
                 durations_.of_collective(*r.role, *r.plan, op, cell.order[cell.front], instance));
  }

  /// A message starts when the other end of it is at the front of the peer's opposite stream.
  /// Streams are in order, so the front ops are the oldest unmatched messages of their channels.
  void reach_peer(std::uint32_t c, const Op& op) {
    Cell& cell = cells_[c];
    const bool sends = op.kind == OpKind::Send;
    const std::uint32_t peer_rank = plan_.peer_of[cell.rank * num_pp_ + to_size(op.peer())];
    const std::uint32_t other =
        peer_rank * kNumStreams + (sends ? stream_of(c) + 1 : stream_of(c) - 1);
    Cell& peer = cells_[other];
    cell.state = Cell::Waiting;
    if (peer.state != Cell::Waiting || !is_p2p(front_op(peer).kind)) return;
    const std::uint32_t back = plan_.peer_of[peer_rank * num_pp_ + to_size(front_op(peer).peer())];
    if (back != cell.rank) return;
    const std::uint32_t sender = sends ? c : other;
    cells_[sender].next = sends ? other : c;
    // Both threads waited.
    start(sender, 2 * plan_.hand_over + message_time(cells_[sender]).transfer);
  }

  /// Of the message at the front of a sender.
  OpDurations::Message message_time(const Cell& sender) {
    const SimRank& from = ranks_[sender.rank];
    const SimRank& to = ranks_[cells_[sender.next].rank];
    return durations_.of_message(*from.role, front_op(sender), from.rank, to.rank);
  }

  /// The front op of `leader`, and of the cells linked behind it, is active from now on.
  void start(std::uint32_t leader, std::int64_t duration) {
    for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) {
      Cell& cell = cells_[c];
      cell.state = Cell::Active;
      cell.leader = leader;
      front_times(cell).active = SimTime{now_};
      if (fluid_) mark_active(c, true);
    }
    if (!fluid_) {
      if (duration == 0) {
        complete(leader);
      } else {
        heap_.push({now_ + duration, leader << 1, 0});
      }
      return;
    }
    Activity& activity = activities_[leader];
    activity.started = now_;
    activity.work = duration;
    activity.remaining = static_cast<double>(duration);
    activity.since = now_;
    activity.rate = 0;  // retime() sets it, together with the event
    use_ports(leader);
    count(leader, 1);
    retime(leader);
  }

  void complete(std::uint32_t leader) {
    for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) {
      cells_[c].state = Cell::Blocked;
      if (fluid_) mark_active(c, false);
    }
    if (fluid_) {
      activities_[leader].rate = 0;
      ++activities_[leader].version;
      count(leader, -1);
      if (plan_.shared_ports) retime_all(shares_.remove(leader));
    }
    const OpKind kind = front_op(cells_[leader]).kind;
    if (fluid_ && kind == OpKind::Call && !plan_.crowded_devices) {
      const Activity& activity = activities_[leader];
      ranks_[cells_[leader].rank].slowed += now_ - activity.started - activity.work;
    }
    if (kind == OpKind::Send) {
      const std::int64_t latency = message_time(cells_[leader]).latency;
      const std::uint32_t receiver = std::exchange(cells_[leader].next, kNone);
      finish(leader);
      leave(receiver, latency);
      return;
    }
    for (std::uint32_t c = leader; c != kNone;) {
      const std::uint32_t next = std::exchange(cells_[c].next, kNone);
      finish(c);
      c = next;
    }
  }

  /// Called when the front op of `c` has ended, so that the stream is free.
  void finish(std::uint32_t c) {
    Cell& cell = cells_[c];
    end_op(ranks_[cell.rank], static_cast<std::int32_t>(cell.order[cell.front]));
    if (++cell.front < cell.count) ready_.push_back(c);
  }

  /// Called when the last byte of a receive's message has been sent: the stream is free, although
  /// the message has not arrived yet.
  void leave(std::uint32_t c, std::int64_t latency) {
    Cell& cell = cells_[c];
    cell.last_arrival = std::max(cell.last_arrival, now_ + latency);
    const bool first = cell.arrived == cell.front;
    if (++cell.front < cell.count) ready_.push_back(c);
    if (first && cell.last_arrival == now_) {
      arrive(c);
    } else {
      heap_.push({cell.last_arrival, (c << 1) | 1u, 0});
    }
  }

  void arrive(std::uint32_t c) {
    Cell& cell = cells_[c];
    SimRank& r = ranks_[cell.rank];
    const std::uint32_t op = cell.order[cell.arrived];
    if (cell.arrived > 0) {
      const SimTime previous_end = r.times[cell.order[cell.arrived - 1]].end;
      r.times[op].active = std::max(r.times[op].active, previous_end);
    }
    ++cell.arrived;
    end_op(r, static_cast<std::int32_t>(op));
  }

  void end_op(SimRank& r, std::int32_t op) {
    r.times[op].end = SimTime{now_};
    makespan_ = now_;
    --unfinished_;
    const auto first = static_cast<std::uint32_t>(&r - ranks_.data()) * kNumStreams;
    for_each_bit(r.waiting, [&](std::uint32_t s) {
      if (r.waits_for[s] != op) return;
      r.waits_for[s] = -1;
      r.waiting &= ~(1u << s);
      ready_.push_back(first + s);
    });
  }

  // ------------------------------------------------ rates: shared devices and overlap

  /// Whether an op runs beside the device, so that neither slows the other. What the host computes
  /// does, unless the device is its own host and ranks share it: then it counts like any
  /// computation.
  bool is_aside(const Op& op) const {
    return is_copy(op.kind) || (op.stream == Stream::Host && !plan_.shared_devices);
  }

  /// Adds `change` to the count of what runs on the ranks of `leader`'s activity, and computes the
  /// end of everything that it slows down or speeds up anew.
  void count(std::uint32_t leader, int change) {
    const OpKind kind = front_op(cells_[leader]).kind;
    if (is_aside(front_op(cells_[leader]))) return;
    if (kind == OpKind::Call) {
      SimRank& r = ranks_[cells_[leader].rank];
      r.running_calls += change;
      retime_transfers(r);
      if (plan_.crowded_devices) occupy(r.device, change);
      return;
    }
    for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) {
      SimRank& r = ranks_[cells_[c].rank];
      r.running_transfers += change;
      retime_calls(r);
      // Of a message's two ends one copies; of a collective's members all do.
      const bool copies = c == leader || !is_p2p(kind);
      if (plan_.crowded_devices && plan_.cores_transfer && copies) occupy(r.device, change);
    }
  }

  void occupy(std::uint32_t device, int change) {
    running_on_[device] += change;
    for (const std::uint32_t neighbour : ranks_on_[device]) {
      retime_calls(ranks_[neighbour]);
      if (plan_.cores_transfer) retime_transfers(ranks_[neighbour]);
    }
  }

  /// The part of its full rate at which what runs on a device progresses.
  double device_share(std::uint32_t device) const {
    if (!plan_.crowded_devices) return 1;
    return std::min(1.0, std::max(1, cluster_.device.concurrent_ranks) /
                             static_cast<double>(running_on_[device]));
  }

  void use_ports(std::uint32_t leader) {
    const Op& op = front_op(cells_[leader]);
    if (!plan_.shared_ports || op.kind == OpKind::Call || is_copy(op.kind)) return;
    const std::uint32_t from = cells_[leader].rank;
    if (is_p2p(op.kind)) {
      const std::uint32_t to = cells_[cells_[leader].next].rank;
      const bool near = same_node(cluster_, ranks_[from].rank, ranks_[to].rank);
      retime_all(shares_.add(leader, {port_of(from, near, true), port_of(to, near, false)}));
      return;
    }
    const std::uint32_t instance =
        plan_.instance_of[from * program_.groups.size() + static_cast<std::size_t>(op.target)];
    retime_all(shares_.add(leader, plan_.instances[instance].ports));
  }

  void retime_all(const std::vector<std::uint32_t>& leaders) {
    for (const std::uint32_t c : leaders) {
      if (cells_[c].state == Cell::Active) retime(c);
    }
  }

  /// Notes that the front op of a cell is active, or is not any more.
  void mark_active(std::uint32_t c, bool active) {
    SimRank& r = ranks_[cells_[c].rank];
    const OpKind kind = front_op(cells_[c]).kind;
    if (is_copy(kind)) return;
    std::uint32_t& streams = kind == OpKind::Call ? r.calling : r.transferring;
    const std::uint32_t bit = 1u << stream_of(c);
    streams = active ? streams | bit : streams & ~bit;
  }
  void retime_calls(const SimRank& r) { retime_streams(r, r.calling); }
  void retime_transfers(const SimRank& r) { retime_streams(r, r.transferring); }
  void retime_streams(const SimRank& r, std::uint32_t streams) {
    const auto first = static_cast<std::uint32_t>(&r - ranks_.data()) * kNumStreams;
    for_each_bit(streams, [&](std::uint32_t s) { retime(cells_[first + s].leader); });
  }

  double rate(std::uint32_t leader) const {
    const OpKind kind = front_op(cells_[leader]).kind;
    if (is_aside(front_op(cells_[leader]))) return 1;
    if (kind == OpKind::Call) {
      const SimRank& r = ranks_[cells_[leader].rank];
      const double share = device_share(r.device);
      return r.running_transfers > 0 ? share / overlap_ : share;
    }
    double share = plan_.shared_ports ? shares_.share(leader) : 1.0;
    if (plan_.cores_transfer) {
      for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) {
        share = std::min(share, device_share(ranks_[cells_[c].rank].device));
      }
    }
    for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) {
      if (ranks_[cells_[c].rank].running_calls > 0) return share / overlap_;
    }
    return share;
  }

  void retime(std::uint32_t leader) {
    Activity& activity = activities_[leader];
    const double new_rate = rate(leader);
    if (new_rate == activity.rate) return;
    const double done = static_cast<double>(now_ - activity.since) * activity.rate;
    activity.remaining = std::max(0.0, activity.remaining - done);
    activity.since = now_;
    activity.rate = new_rate;
    ++activity.version;
    const std::int64_t left = std::llround(activity.remaining / new_rate);
    heap_.push({now_ + left, leader << 1, activity.version});
  }

  // ------------------------------------------------

  std::string op_text(const SimRank& r, std::int32_t op) const {
    return std::string("%").append(std::to_string(op)) + " " +
           describe(program_, *r.role, OpId{op});
  }

  Error stuck() const {
    std::string message = "the simulation is stuck at " +
                          std::to_string(to_seconds(SimTime{now_}).v) + " s with " +
                          std::to_string(unfinished_) + " ops to run";
    int named = 0;
    for (std::uint32_t c = 0; c < cells_.size() && named < 8; ++c) {
      const Cell& cell = cells_[c];
      if (cell.front == cell.count) continue;
      const SimRank& r = ranks_[cell.rank];
      const std::int32_t dependency = r.waits_for[stream_of(c)];
      message.append(named++ == 0 ? ": rank " : "; rank ")
          .append(std::to_string(r.rank))
          .append(": ")
          .append(op_text(r, static_cast<std::int32_t>(cell.order[cell.front])))
          .append(" waits for ")
          .append(dependency >= 0 ? op_text(r, dependency) : "its peers");
    }
    return Error{ErrorKind::Internal, message, {}};
  }

  const Program& program_;
  const ClusterSpec& cluster_;
  const Plan& plan_;
  std::vector<SimRank> ranks_;
  std::vector<Cell> cells_;  // [simulated rank][stream]
  std::vector<Activity> activities_;
  std::vector<std::vector<Meeting>> meetings_;  // by group instance
  std::vector<int> running_on_;                 // by device: calls, and transfers of its cores
  std::vector<std::vector<std::uint32_t>> ranks_on_;  // by device
  std::vector<std::uint32_t> ready_;                  // cells to advance
  EventHeap heap_;
  std::size_t num_pp_;
  double overlap_;
  bool fluid_;
  PortShares shares_;  // by leader
  OpDurations durations_;
  std::int64_t now_ = 0;
  std::int64_t makespan_ = 0;
  std::int64_t unfinished_ = 0;
};

}  // namespace

Result<Timeline> simulate(const Program& program, const ClusterSpec& cluster,
                          const WhatIfSpec& what_if, const EngineOptions& options) {
  const ClusterSpec changed = apply(what_if, cluster);
  const Result<Plan> plan = make_plan(program, changed, what_if, options.fold);
  if (!plan) return plan.error();
  Timeline timeline;
  timeline.ranks = plan->folding.representatives;
  timeline.same_as = plan->folding.representative_of;
  Engine engine(program, changed, what_if, *plan, timeline);
  if (const Result<void> ran = engine.run(); !ran) return ran.error();
  timeline.makespan = SimTime{engine.makespan()};
  timeline.slowed = engine.slowed();
  return timeline;
}

}  // namespace lockstep::sim
