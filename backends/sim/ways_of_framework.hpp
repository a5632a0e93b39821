// What the framework of a run makes of the collectives and the calls of a role, by op.
#pragma once

#include <cstdint>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep::sim {

/// Of a collective inside a layer, how it goes beside the product whose operand it gathers or whose
/// result it reduces (docs/cost-model.md, "Collectives beside products").
struct BesideProduct {
  std::int64_t product = 0;  // ps; 0: it does not advance with a product
  int size_divisor = 1;      // 2: a gather of what the product reads in 8 bits
  /// What remains of a collective of `whole` ps among `members`.
  std::int64_t exposed(std::int64_t whole, int members) const;
};

/// By op; empty if the framework does nothing of the kind.
std::vector<BesideProduct> beside_products(const Program& program, const Role& role,
                                           const ClusterSpec& cluster);

/// By op: when the host has launched it, in ps from the start of the step, if it never waits: it
/// launches the kernels of all ops in their order, each in host_kernel. Empty if launches are not
/// counted, or if they are part of the functions' times (launch_blocking).
std::vector<std::int64_t> launch_times(const Program& program, const Role& role,
                                       const FrameworkSpec& framework);

}  // namespace lockstep::sim
