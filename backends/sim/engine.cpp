#include "backends/sim/engine.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "backends/sim/engine_state.hpp"
#include "backends/sim/event_heap.hpp"
#include "backends/sim/islands.hpp"
#include "backends/sim/op_durations.hpp"
#include "backends/sim/plan.hpp"
#include "backends/sim/rates.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"

namespace lockstep::sim {
namespace {

/// So many streams do not fit into a core's cache.
constexpr std::size_t kManyCells = 10'000;
/// What an event whose key is odd says has come: the last byte of a message, a rank at a
/// collective with members of other islands, or samples.
enum class Awaited : std::uint32_t { Message, Members, Samples };

/// Runs ops until none is left, or until an island meets another.
class Engine {
 public:
  /// Engines that share `state` may run at one time if each has islands of its own.
  Engine(const Program& program, const ClusterSpec& cluster, const WhatIfSpec& what_if,
         const Plan& plan, const Islands& islands, EngineState& state)
      : program_(program),
        cluster_(cluster),
        plan_(plan),
        islands_(islands),
        state_(state),
        ranks_(state.ranks),
        cells_(state.cells),
        num_pp_(to_size(program.mesh.size_of("pp"))),
        rates_(program, cluster, plan, state, heap_),
        durations_(program, cluster, what_if, plan) {}

  /// Runs one island until the first moment in which a rank of it arrives at a collective with
  /// another, or to the end. Appends to `left` the events after this, and such arrivals.
  Result<void> run_island(std::size_t island, std::vector<SimEvent>& left) {
    now_ = 0;
    alone_ = true;
    arrived_.clear();
    for (const std::uint32_t rank : islands_.ranks[island]) {
      for (std::uint32_t c = rank * kNumStreams; c < (rank + 1) * kNumStreams; ++c) {
        if (cells_[c].count > 0) ready_.push_back(c);
      }
    }
    if (Result<void> ran = run(); !ran) return ran;
    for (std::size_t i = 0; i < heap_.size(); ++i) left.push_back(heap_[i]);
    left.insert(left.end(), arrived_.begin(), arrived_.end());
    heap_.clear();
    return {};
  }

  /// Runs all islands together from where run_island() left them.
  Result<void> run_together(const std::vector<SimEvent>& left) {
    now_ = 0;
    alone_ = false;
    arrived_.clear();
    for (const SimEvent& event : left) heap_.push(event);
    return run();
  }

  std::int64_t ended() const { return ended_; }  // ops
  std::int64_t makespan() const { return makespan_; }

  Error stuck(std::int64_t now, std::int64_t unfinished) const {
    std::string message = "the simulation is stuck at " +
                          std::to_string(to_seconds(SimTime{now}).v) + " s with " +
                          std::to_string(unfinished) + " ops to run";
    int named = 0;
    for (std::uint32_t c = 0; c < cells_.size() && named < 8; ++c) {
      const Cell& cell = cells_[c];
      if (cell.front == cell.count) continue;
      const SimRank& r = ranks_[cell.rank];
      const std::int32_t dependency = r.waits_for[state_.stream_of(c)];
      message.append(named++ == 0 ? ": rank " : "; rank ")
          .append(std::to_string(r.rank))
          .append(": ")
          .append(op_text(r, static_cast<std::int32_t>(cell.order[cell.front])))
          .append(" waits for ")
          .append(dependency >= 0 ? op_text(r, dependency) : "its peers");
    }
    return Error{ErrorKind::Internal, message, {}};
  }

 private:
  Result<void> run() {
    for (;;) {
      while (!ready_.empty()) {
        const std::uint32_t c = ready_.back();
        ready_.pop_back();
        advance(c);
      }
      if (heap_.empty() || (!arrived_.empty() && heap_.top().time > now_)) return {};
      const SimEvent event = heap_.pop();
      if (cells_.size() >= kManyCells) prefetch_next();
      const std::uint32_t c = event.key() >> 1;
      const bool ends = (event.key() & 1u) == 0;
      if (ends && state_.fluid && !rates_.ends(c, event.version())) continue;
      if (event.time >= kLongestTime.count()) return too_long();
      now_ = event.time;
      if (ends) {
        complete(c);
        continue;
      }
      switch (static_cast<Awaited>(event.version())) {
        case Awaited::Message:
          arrive(c);
          break;
        case Awaited::Members:
          join_meeting(c);
          break;
        case Awaited::Samples:
          start_copy(c);
          break;
      }
    }
  }

  /// Of many ranks, an event's state lies in memory that no cache holds: it is asked for while the
  /// events before it are worked on. What the next one leads to is known once its own state is
  /// there.
  void prefetch_next() const {
    for (std::size_t i = 0; i < std::min<std::size_t>(heap_.size(), 5); ++i) {
      const std::uint32_t c = heap_[i].key() >> 1;
      __builtin_prefetch(&cells_[c]);
      if (state_.fluid) __builtin_prefetch(&cells_[c].activity);
      __builtin_prefetch(&ranks_[c / kNumStreams]);
      __builtin_prefetch(ranks_[c / kNumStreams].waits_for);
    }
    if (heap_.empty()) return;
    const std::uint32_t next = heap_.top().key() >> 1;
    const SimRank& r = ranks_[next / kNumStreams];
    for_each_bit(r.waiting | r.transferring, [&](std::uint32_t s) {
      __builtin_prefetch(&cells_[next / kNumStreams * kNumStreams + s], 1);
    });
    if (cells_[next].state == Cell::Active) prefetch_members(next);
  }

  Error too_long() const {
    return invalid("the step takes longer than the simulator's clock reaches, 13 days: after " +
                   std::to_string(to_seconds(SimTime{now_}).v) +
                   " s a cost or a latency is too large for it");
  }

  /// Called when a stream is free: starts its front op, or notes what that op waits for.
  void advance(std::uint32_t c) {
    Cell& cell = cells_[c];
    SimRank& r = ranks_[cell.rank];
    const Op& op = state_.front_op(cell);
    cell.kind = op.kind;
    // How far its stream has come tells whether an op has ended. Of many ranks, the times of all
    // ops lie in memory that no cache holds.
    for (const OpId dependency : r.role->after_of(op)) {
      const auto stream = static_cast<std::uint32_t>(r.role->op(dependency).stream);
      const Cell& other = cells_[cell.rank * kNumStreams + stream];
      if (static_cast<std::uint32_t>(dependency.v) < other.reached) continue;
      r.waits_for[state_.stream_of(c)] = dependency.v;
      r.waiting |= 1u << state_.stream_of(c);
      cell.waited = true;
      return;
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
      const std::int64_t loading = until_loaded(op);
      if (loading > 0) {
        heap_.push({now_ + loading, (c << 1) | 1u, static_cast<std::uint32_t>(Awaited::Samples)});
      } else {
        start_copy(c);
      }
    }
  }

  void start_copy(std::uint32_t c) {
    start(c, durations_.of_copy(*ranks_[cells_[c].rank].role, state_.front_op(c)));
  }

  /// Until the data loader has what a copy brings.
  std::int64_t until_loaded(const Op& op) const {
    if (plan_.samples.each == SimTime{} || !op.brings_samples()) return 0;
    return plan_.samples.of(op.microbatch).count() - now_;
  }

  /// Until the host has launched the last kernel of a call. The host itself waits for the messages
  /// that a call reads, before it launches that call.
  std::int64_t until_launched(SimRank& r, const Op& op, std::uint32_t id) {
    const std::vector<std::int64_t>& launched = r.plan->launched;
    if (launched.empty()) return 0;
    const std::int64_t before = id == 0 ? 0 : launched[id - 1];
    for (const OpId dependency : r.role->after_of(op)) {
      if (r.role->ops[dependency].kind != OpKind::Recv) continue;
      r.host_late = std::max(r.host_late, end_of(r, dependency).count() - before);
    }
    return launched[id] + r.host_late - now_;
  }

  /// The times of op number i of a stream.
  static OpTiming& timing(const SimRank& r, const Cell& cell, std::uint32_t i) {
    return r.times[(cell.order - r.plan->order.ops.data()) + i];
  }

  /// When an op that has ended did.
  SimTime end_of(const SimRank& r, OpId op) const {
    const auto stream = static_cast<std::uint32_t>(r.role->op(op).stream);
    const auto first = static_cast<std::uint32_t>(&r - ranks_.data()) * kNumStreams;
    const Cell& cell = cells_[first + stream];
    const auto* const place =
        std::lower_bound(cell.order, cell.order + cell.ended, static_cast<std::uint32_t>(op.v));
    return timing(r, cell, static_cast<std::uint32_t>(place - cell.order)).end;
  }

  void reach_group(std::uint32_t c, const Op& op) {
    Cell& cell = cells_[c];
    cell.state = Cell::Waiting;
    if (alone_ && islands_.bridges[instance_of(cell, op)] != 0) {
      arrived_.push_back({now_, (c << 1) | 1u, static_cast<std::uint32_t>(Awaited::Members)});
      return;
    }
    join_meeting(c);
  }

  std::uint32_t instance_of(const Cell& cell, const Op& op) const {
    return plan_.instance_of[cell.rank * program_.groups.size() + to_size(op.group())];
  }

  /// Of many ranks, the state of those that meet lies in memory that no cache holds, and the cells
  /// lead from one to the next. So all of it is asked for at once.
  void prefetch_members(std::uint32_t c) const {
    const Cell& cell = cells_[c];
    if (cells_.size() < kManyCells || !is_collective(cell.kind)) return;
    const std::uint32_t stream = state_.stream_of(c);
    for (const std::uint32_t rank :
         plan_.instances[instance_of(cell, state_.front_op(cell))].ranks) {
      __builtin_prefetch(&cells_[rank * kNumStreams + stream], 1);
      __builtin_prefetch(&ranks_[rank], 1);
      __builtin_prefetch(ranks_[rank].waits_for, 1);
      __builtin_prefetch(&cells_[rank * kNumStreams], 1);  // its next call waits
      if (state_.fluid) __builtin_prefetch(&cells_[rank * kNumStreams].activity, 1);
    }
  }

  void join_meeting(std::uint32_t c) {
    Cell& cell = cells_[c];
    const Op& op = state_.front_op(cell);
    const std::int32_t seq = ranks_[cell.rank].plan->seq[cell.order[cell.front]];
    const std::uint32_t instance = instance_of(cell, op);
    std::vector<Meeting>& open = state_.meetings[instance];
    auto meeting =
        std::find_if(open.begin(), open.end(), [seq](const Meeting& m) { return m.seq == seq; });
    if (meeting == open.end()) meeting = open.insert(open.end(), Meeting{seq, 0, kNone});
    cell.next = meeting->last;
    meeting->last = c;
    if (++meeting->arrivals < plan_.instances[instance].arrivals) return;
    *meeting = open.back();
    open.pop_back();
    prefetch_members(c);
    // Threads wait before it, for the last that arrives, and for the last that leaves.
    const SimRank& r = ranks_[cell.rank];
    start(c, 3 * plan_.hand_over +
                 durations_.of_collective(*r.plan, op, cell.order[cell.front], instance));
  }

  /// A message starts when the other end of it is at the front of the peer's opposite stream.
  /// Streams are in order, so the front ops are the oldest unmatched messages of their channels.
  void reach_peer(std::uint32_t c, const Op& op) {
    Cell& cell = cells_[c];
    const bool sends = op.kind == OpKind::Send;
    const std::uint32_t peer_rank = plan_.peer_of[cell.rank * num_pp_ + to_size(op.peer())];
    const std::uint32_t other =
        peer_rank * kNumStreams + (sends ? state_.stream_of(c) + 1 : state_.stream_of(c) - 1);
    Cell& peer = cells_[other];
    cell.state = Cell::Waiting;
    if (peer.state != Cell::Waiting || !is_p2p(peer.kind)) return;
    const std::uint32_t back =
        plan_.peer_of[peer_rank * num_pp_ + to_size(state_.front_op(peer).peer())];
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
    return durations_.of_message(*from.role, state_.front_op(sender), from.rank, to.rank);
  }

  /// The front op of `leader`, and of the cells linked behind it, is active from now on.
  void start(std::uint32_t leader, std::int64_t duration) {
    for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) {
      Cell& cell = cells_[c];
      cell.state = Cell::Active;
      cell.leader = leader;
      cell.active = now_;
    }
    if (state_.fluid) {
      rates_.begin(leader, duration, now_);
    } else if (duration == 0) {
      complete(leader);
    } else {
      heap_.push({now_ + duration, leader << 1, 0});
    }
  }

  void complete(std::uint32_t leader) {
    prefetch_members(leader);
    for (std::uint32_t c = leader; c != kNone; c = cells_[c].next) {
      cells_[c].state = Cell::Blocked;
    }
    if (state_.fluid) rates_.end(leader, now_);
    if (cells_[leader].kind == OpKind::Send) {
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
    SimRank& r = ranks_[cell.rank];
    const std::uint32_t op = cell.order[cell.front];
    state_.notes.note(cell.rank, &timing(r, cell, cell.front),
                      {SimTime{cell.active}, SimTime{now_}});
    end_op(cell, r, op);
    if (++cell.front < cell.count) ready_.push_back(c);
  }

  /// Called when the last byte of a receive's message has been sent: the stream is free, although
  /// the message has not arrived yet.
  void leave(std::uint32_t c, std::int64_t latency) {
    Cell& cell = cells_[c];
    cell.last_arrival = std::max(cell.last_arrival, now_ + latency);
    const bool first = cell.ended == cell.front;
    timing(ranks_[cell.rank], cell, cell.front).active = SimTime{cell.active};
    if (++cell.front < cell.count) ready_.push_back(c);
    if (first && cell.last_arrival == now_) {
      arrive(c);
    } else {
      heap_.push({cell.last_arrival, (c << 1) | 1u, static_cast<std::uint32_t>(Awaited::Message)});
    }
  }

  void arrive(std::uint32_t c) {
    Cell& cell = cells_[c];
    SimRank& r = ranks_[cell.rank];
    const std::uint32_t op = cell.order[cell.ended];
    OpTiming& times = timing(r, cell, cell.ended);
    times = {std::max(times.active, SimTime{cell.last_end}), SimTime{now_}};
    end_op(cell, r, op);
  }

  void end_op(Cell& cell, SimRank& r, std::uint32_t op) {
    ++cell.ended;
    cell.last_end = now_;
    cell.reached = cell.ended < cell.count ? cell.order[cell.ended] : kNone;
    makespan_ = std::max(makespan_, now_);
    ++ended_;
    const auto first = static_cast<std::uint32_t>(&r - ranks_.data()) * kNumStreams;
    for_each_bit(r.waiting, [&](std::uint32_t s) {
      if (r.waits_for[s] != static_cast<std::int32_t>(op)) return;
      r.waits_for[s] = -1;
      r.waiting &= ~(1u << s);
      ready_.push_back(first + s);
    });
  }

  std::string op_text(const SimRank& r, std::int32_t op) const {
    return std::string("%").append(std::to_string(op)) + " " +
           describe(program_, *r.role, OpId{op});
  }

  const Program& program_;
  const ClusterSpec& cluster_;
  const Plan& plan_;
  const Islands& islands_;
  EngineState& state_;
  // Parts of it:
  HugePageVector<SimRank>& ranks_;
  HugePageVector<Cell>& cells_;
  std::vector<std::uint32_t> ready_;  // cells to advance
  EventHeap heap_;
  std::size_t num_pp_;
  Rates rates_;
  OpDurations durations_;
  bool alone_ = false;             // one island runs
  std::vector<SimEvent> arrived_;  // of its ranks at collectives with others
  std::int64_t now_ = 0;
  std::int64_t makespan_ = 0;
  std::int64_t ended_ = 0;
};

/// Runs the islands apart, on as many threads as there are cores if that is worth it, and then
/// together.
class Simulation {
 public:
  Simulation(const Program& program, const ClusterSpec& cluster, const WhatIfSpec& what_if,
             const Plan& plan, Timeline& timeline)
      : islands_(find_islands(program, plan)), state_(program, cluster, plan, timeline) {
    const std::size_t threads = to_size(threads_for(to_size(state_.num_ops)));
    for (std::size_t i = 0; i < std::min(threads, islands_.ranks.size()); ++i) {
      engines_.emplace_back(program, cluster, what_if, plan, islands_, state_);
    }
  }

  Result<void> run() {
    std::vector<std::vector<SimEvent>> left(engines_.size());
    std::vector<Result<void>> ran(engines_.size());
    ThreadTeam team(static_cast<int>(engines_.size()));
    team.run([&](int member) {
      const auto m = to_size(member);
      for (std::size_t i = m; i < islands_.ranks.size() && ran[m]; i += engines_.size()) {
        ran[m] = engines_[m].run_island(i, left[m]);
      }
    });
    std::vector<SimEvent> all;
    for (std::size_t m = 0; m < engines_.size(); ++m) {
      if (!ran[m]) return ran[m];
      all.insert(all.end(), left[m].begin(), left[m].end());
    }
    state_.notes.collect(state_.ranks.size());
    if (Result<void> last = engines_.front().run_together(all); !last) return last;
    state_.notes.write_all();
    std::int64_t unfinished = state_.num_ops;
    for (const Engine& engine : engines_) unfinished -= engine.ended();
    if (unfinished > 0) return engines_.front().stuck(makespan(), unfinished);
    return {};
  }

  std::int64_t makespan() const {
    std::int64_t latest = 0;
    for (const Engine& engine : engines_) latest = std::max(latest, engine.makespan());
    return latest;
  }
  std::int64_t num_ops() const { return state_.num_ops; }
  std::vector<SimTime> slowed() const {
    std::vector<SimTime> times;
    for (const SimRank& r : state_.ranks) times.emplace_back(r.slowed);
    return times;
  }

 private:
  Islands islands_;
  EngineState state_;
  std::deque<Engine> engines_;
};

}  // namespace

std::size_t Timeline::place_of(Rank rank) const {
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), same_as[rank]);
  return static_cast<std::size_t>(at - ranks.begin());
}

IndexVector<OpId, OpTiming> Timeline::by_op(std::size_t i, const Role& role) const {
  const StreamOrder order = stream_order(role);
  IndexVector<OpId, OpTiming> result(order.ops.size());
  const std::span<const OpTiming> own = of_place(i);
  for (std::size_t k = 0; k < order.ops.size(); ++k) result[std::size_t{order.ops[k]}] = own[k];
  return result;
}

Result<Timeline> simulate(const Program& program, const ClusterSpec& cluster,
                          const WhatIfSpec& what_if, const EngineOptions& options) {
  const ClusterSpec changed = apply(what_if, cluster);
  Result<Plan> plan = make_plan(program, changed, what_if, options.fold);
  if (!plan) return plan.error();
  plan->samples = options.samples;
  Timeline timeline;
  timeline.ranks = plan->folding.representatives;
  timeline.same_as = plan->folding.representative_of;
  Simulation simulation(program, changed, what_if, *plan, timeline);
  if (const Result<void> ran = simulation.run(); !ran) return ran.error();
  timeline.makespan = SimTime{simulation.makespan()};
  timeline.num_ops = simulation.num_ops();
  timeline.slowed = simulation.slowed();
  return timeline;
}

}  // namespace lockstep::sim
