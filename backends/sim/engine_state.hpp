// What the engine knows of a running simulation, by stream, op, rank and collective.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "backends/sim/end_notes.hpp"
#include "backends/sim/engine.hpp"
#include "backends/sim/plan.hpp"
#include "backends/sim/port_shares.hpp"
#include "core/base/huge_pages.hpp"

namespace lockstep::sim {

constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// Calls visit(i) for every bit i that is set, from the lowest on.
template <class Visit>
void for_each_bit(std::uint32_t bits, Visit&& visit) {
  for (; bits != 0; bits &= bits - 1) visit(static_cast<std::uint32_t>(std::countr_zero(bits)));
}

/// Where a structure has lines of the cache to itself, an event of a rank that none has looked at
/// for long takes as few of them as can be; two that lie side by side come together.
constexpr std::size_t kCacheLine = 64;

/// Progress of a running op whose rate can change.
struct Activity {
  std::int64_t started = 0, work = 0;  // in ps; `work` at rate 1
  double remaining = 0;                // in ps at rate 1
  double rate = 1;
  std::int64_t since = 0;     // the time to which `remaining` refers
  std::int64_t end = 0;       // at this rate
  std::int64_t due = kNever;  // when its event is, which is not later than `end`
  std::uint32_t version = 0;  // of this event
};

/// One stream of one simulated rank.
struct alignas(2 * kCacheLine) Cell {
  const std::uint32_t* order = nullptr;  // op ids of the stream
  std::uint32_t count = 0;
  std::uint32_t front = 0;       // the op that is next or running
  std::uint32_t ended = 0;       // how many ops have; messages [ended, front) are under way
  std::uint32_t reached = 0;     // the id of the first op that has not ended; kNone if all have
  std::uint32_t rank = 0;        // simulated rank
  std::uint32_t next = kNone;    // in a collective: the member that came before this one
  std::uint32_t leader = kNone;  // when active: the cell that owns the activity's event
  enum State : std::uint8_t { Blocked, Waiting, Active } state = Blocked;
  bool waited = false;            // the op at the front had to wait for another stream's
  OpKind kind = OpKind::Call;     // of the op at the front, once it has been looked at
  std::int64_t active = 0;        // since when the op at the front is active
  std::int64_t last_end = 0;      // of the last op that has ended; 0 if none has
  std::int64_t last_arrival = 0;  // receives only: when the newest message under way arrives
  Activity activity;              // where rates can change: of the op at the front, if it leads
};
static_assert(sizeof(Cell) == 2 * kCacheLine);

struct alignas(2 * kCacheLine) SimRank {
  const Role* role = nullptr;
  const RolePlan* plan = nullptr;
  const std::int64_t* duration = nullptr;  // by function
  OpTiming* times = nullptr;               // in stream order
  // Sets of streams, as bits:
  std::uint32_t waiting = 0;       // whose waits_for is an op
  std::uint32_t calling = 0;       // that have an active call
  std::uint32_t transferring = 0;  // that have an active collective or message
  std::int16_t running_calls = 0;
  std::int16_t running_transfers = 0;
  std::int64_t slowed = 0;     // ps that calls took longer because of transfers beside them
  std::int64_t host_late = 0;  // ps by which the host launches later than RolePlan::launched
  std::int32_t waits_for[kNumStreams];  // the op of this rank its front op waits for; -1: none
  Rank rank = 0;
};
static_assert(sizeof(SimRank) == 2 * kCacheLine);

/// A collective that not all members have reached.
struct Meeting {
  std::int32_t seq = 0;
  std::uint32_t arrivals = 0;
  std::uint32_t last = kNone;  // the newest arrival; Cell::next leads to the others
};

/// All that changes while a simulation runs. Engines of islands share it, and each touches only
/// what belongs to the ranks of its own.
struct EngineState {
  /// The times of all simulated ranks go to `timeline`.
  EngineState(const Program& program, const ClusterSpec& cluster, const Plan& plan,
              Timeline& timeline);

  double overlap;  // DeviceSpec::overlap_slowdown, at least 1
  bool fluid;      // rates can change
  const Op& front_op(const Cell& cell) const {
    return ranks[cell.rank].role->ops[cell.order[cell.front]];
  }
  const Op& front_op(std::uint32_t c) const { return front_op(cells[c]); }
  std::uint32_t stream_of(std::uint32_t c) const { return c - cells[c].rank * kNumStreams; }

  HugePageVector<SimRank> ranks;
  HugePageVector<Cell> cells;                        // [simulated rank][stream]
  std::vector<std::vector<Meeting>> meetings;        // by group instance
  std::vector<std::uint32_t> device_of;              // by simulated rank
  std::vector<int> running_on;                       // by device: calls, and transfers of its cores
  std::vector<std::vector<std::uint32_t>> ranks_on;  // by device
  std::vector<int> at_drives;  // by group of Plan::drives: reads and writes of one of its nodes
  PortShares shares;           // by leader
  EndNotes notes;
  std::int64_t num_ops = 0;
};

}  // namespace lockstep::sim
