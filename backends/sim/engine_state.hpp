// What the engine knows of a running simulation, by stream, op, rank and collective.
#pragma once

#include <cstdint>

#include "backends/sim/engine.hpp"
#include "backends/sim/plan.hpp"

namespace lockstep::sim {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// One stream of one simulated rank.
struct Cell {
  const std::uint32_t* order = nullptr;  // op ids of the stream
  std::uint32_t count = 0;
  std::uint32_t front = 0;       // the op that is next or running
  std::uint32_t arrived = 0;     // receives only: messages [arrived, front) are under way
  std::uint32_t rank = 0;        // simulated rank
  std::uint32_t next = kNone;    // in a collective: the member that came before this one
  std::uint32_t leader = kNone;  // when active: the cell that owns the activity's event
  enum State : std::uint8_t { Blocked, Waiting, Active } state = Blocked;
  bool waited = false;            // the op at the front had to wait for another stream's
  std::int64_t last_arrival = 0;  // receives only: when the newest message under way arrives
};

/// Progress of a running op whose rate can change.
struct Activity {
  std::int64_t started = 0, work = 0;  // in ps; `work` at rate 1
  double remaining = 0;                // in ps at rate 1
  double rate = 1;
  std::int64_t since = 0;  // the time to which `remaining` refers
  std::uint32_t version = 0;
};

struct SimRank {
  const Role* role = nullptr;
  const RolePlan* plan = nullptr;
  const std::int64_t* duration = nullptr;  // by function
  OpTiming* times = nullptr;               // by op; end < 0 while the op has not ended
  std::int32_t waits_for[16];              // by stream: the op of this rank its front op waits for
  // Sets of streams, as bits:
  std::uint32_t waiting = 0;       // whose waits_for is an op
  std::uint32_t calling = 0;       // that have an active call
  std::uint32_t transferring = 0;  // that have an active collective or message
  Rank rank = 0;
  std::uint32_t device = 0;
  std::int64_t host_late = 0;  // ps by which the host launches later than RolePlan::launched
  int running_calls = 0;
  int running_transfers = 0;
  std::int64_t slowed = 0;  // ps that calls took longer because of transfers beside them
};

/// A collective that not all members have reached.
struct Meeting {
  std::int32_t seq = 0;
  std::uint32_t arrivals = 0;
  std::uint32_t last = kNone;  // the newest arrival; Cell::next leads to the others
};

}  // namespace lockstep::sim
