// Collective question: how long a collective takes on a cluster, asked with names and sizes as
// people write them, and the answer as JSON.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"
#include "core/validation/collectives.hpp"

namespace lockstep {

struct CollectiveQuestion {
  std::string kind = "all_reduce", bytes = "256MiB", cluster = "h100";  // a preset or a file
  int nodes = 1, ranks = 0;  // ranks 0: all ranks of the nodes
  bool sweep = false;        // sizes from 8 bytes to 8 GiB instead of `bytes`
};

struct CollectiveAnswer {
  struct Size {
    Bytes bytes;
    CollectiveEstimate estimate;
  };
  ClusterSpec cluster;
  int ranks = 0;
  std::vector<Size> sizes;
};

/// Errors: InvalidSpec for a name that is none (with the nearest), a size that is none, or ranks
/// that the nodes do not have; those of a cluster's profile.
Result<CollectiveAnswer> answer(const CollectiveQuestion& question);

/// A list with an object for each size, and a final line end.
std::string collective_json(const CollectiveAnswer& answer);

}  // namespace lockstep
