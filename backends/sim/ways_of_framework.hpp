// Ways of a framework: how it changes when the collectives and the calls of a role run, by op.
#pragma once

#include <cstdint>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep::sim {

/// How a collective inside a layer goes beside the product whose operand it gathers or whose result
/// it reduces (docs/cost-model.md, "Collectives beside products").
struct BesideProduct {
  std::int64_t product = 0;  // its time in ps; 0: the collective does not advance with one
  int size_divisor = 1;      // 2: it gathers what the product reads in 8 bits
  /// The part of a collective of `whole` ps among `members` that stays exposed, in ps.
  std::int64_t exposed(std::int64_t whole, int members) const;
};

/// How the collective of each op goes beside a product, by op; empty if the framework does nothing
/// of the kind.
std::vector<BesideProduct> beside_products(const Program& program, const Role& role,
                                           const ClusterSpec& cluster);

/// The bytes of the parameters that each op gathers or reduces one by one, by op; nothing for other
/// ops. Empty if the framework moves units as a whole.
std::vector<std::vector<Bytes>> moved_parameters(const Program& program, const Role& role,
                                                 const FrameworkSpec& framework);

/// When the host has launched each op if it never waits, by op, in ps from the start of the step.
/// It launches the kernels of all ops in their order, each in host_kernel. Empty if launches are
/// not counted, or if they are part of the functions' times (launch_blocking).
std::vector<std::int64_t> launch_times(const Program& program, const Role& role,
                                       const FrameworkSpec& framework);

}  // namespace lockstep::sim
