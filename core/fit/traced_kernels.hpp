// Traced kernels: the kernels of a Kineto trace as observations, by operator and shape.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/fit/fit.hpp"
#include "core/trace/kineto/operators.hpp"

namespace lockstep {

struct TracedObservations {
  std::vector<Observation> rows;
  std::vector<std::string> remarks;  // what of the trace is not compared, one sentence each
};

/// What a device of `cluster` is to take for the kernels of a trace, which ran on one. A row is
/// - a product (aten::mm, aten::addmm) of one shape and type: the median of its kernels' times
///   together, beside the cost model's without the launch;
/// - an elementwise operator (aten::add, aten::mul, aten::copy_, …) of one shape and type that
/// moves
///   at least 64 MiB: likewise, beside its bytes over the bandwidth that copies reach;
/// - "launch": the median gap between kernels that were launched in time, beside
/// launch_overhead_us. Rows of less than 20 us are left out, for they are mostly a kernel's
/// beginning and end. The group is the operator. Other operators are remarked with their share of
/// the kernels' time. Error InvalidSpec if no operator has a shape.
Result<TracedObservations> observations_of(const std::vector<TracedKernel>& kernels,
                                           const ClusterSpec& cluster, const std::string& file);

}  // namespace lockstep
