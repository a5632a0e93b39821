// Islands: sets of simulated ranks that nothing but collectives over copies of the model connects.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/sim/plan.hpp"
#include "core/ir/program.hpp"

namespace lockstep::sim {

/// Until one of its ranks arrives at a collective with another island, what an island does depends
/// on itself alone: its ranks can be simulated apart, and their state stays in the cache.
struct Islands {
  std::vector<std::vector<std::uint32_t>> ranks;  // by island, ascending
  std::vector<char> bridges;                      // by group instance: it has ranks of several
};

/// The copies of the model (the coordinates along the mesh's data-parallel dimensions) as far as
/// messages, other collectives and the drives of a node do not connect them. One island if ranks
/// share a device's throughput.
Islands find_islands(const Program& program, const Plan& plan);

}  // namespace lockstep::sim
