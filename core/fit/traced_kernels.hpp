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

/// Makes rows of the kernels of a trace that ran on a device of `cluster`: what they took, beside
/// what such a device is to take. A row is
/// - a product (aten::mm, aten::addmm) of one shape and type: the median of what its kernels took
///   together, beside the cost model's time without the launch;
/// - an elementwise operator (aten::add, aten::mul, aten::copy_, …) of one shape and type that
///   moves at least 64 MiB: the same median, beside its bytes over the bandwidth that copies reach;
/// - "launch": the median gap between kernels that were launched in time, beside
///   launch_overhead_us.
///
/// Rows of less than 20 us are left out, for they are mostly a kernel's beginning and end. The
/// group of a row is its operator. Other operators are remarked with their share of the kernels'
/// time. Error InvalidSpec if no operator has a shape.
Result<TracedObservations> observations_of(const std::vector<TracedKernel>& kernels,
                                           const ClusterSpec& cluster, const std::string& file);

}  // namespace lockstep
