// Collectives: what the cost model says of one, as nccl-tests prints it, and beside measurements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/units.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"
#include "core/validation/csv.hpp"
#include "core/validation/statistics.hpp"

namespace lockstep {

/// "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all".
const std::vector<std::string>& collective_names();
std::optional<OpKind> collective_named(std::string_view name);

/// Bus bandwidth over algorithm bandwidth of nccl-tests: what a ring's links carry of one byte.
/// All-reduce 2(n-1)/n; all-gather, reduce-scatter and all-to-all (n-1)/n; broadcast 1.
double bus_factor(OpKind kind, int ranks);

struct CollectiveEstimate {
  Seconds time;
  BytesPerSecond algorithm_bandwidth;  // bytes / time, nccl-tests' algbw
  BytesPerSecond bus_bandwidth;
  LinkSpec link;        // as the formula sees it
  std::string formula;  // of core/cost: "2(n-1)(α + S/(n·B))"
  std::string over;     // "links inside a node"
};
/// `bytes`: nccl-tests' size, the larger buffer of a rank. `ranks`: the first of the cluster's,
/// at least 2 and at most its capacity.
CollectiveEstimate estimate_collective(const ClusterSpec& cluster, OpKind kind, Bytes bytes,
                                       int ranks);

/// A line of validation/collectives.csv.
struct CollectiveRow {
  std::string source, hw, collective, algorithm;
  int nodes = 1, ranks = 0;
  std::optional<Bytes> payload;
  std::optional<double> time_ms;
  std::string name() const;  // "all_reduce 256 MiB on 8 of B200 …" without the size
};
struct CollectiveRows {
  std::vector<CollectiveRow> rows;
  std::vector<Error> errors;
};
CollectiveRows read_collective_rows(const CsvTable& table);

struct ValidatedCollective {
  CollectiveRow row;
  std::optional<CollectiveEstimate> estimate;
  std::string reason;                   // why there is none
  std::optional<double> error() const;  // of the time: simulated / measured - 1
};
std::vector<ValidatedCollective> validate_collectives(const std::vector<CollectiveRow>& rows);

/// Messages below 1 MiB, below 16, below 256, and above: latency, the way up, the wire.
struct CollectiveClass {
  std::string name;
  ErrorFigures time;
};
std::vector<CollectiveClass> by_size(const std::vector<ValidatedCollective>& rows);

std::string collectives_json(const std::vector<ValidatedCollective>& rows, bool with_rows);

}  // namespace lockstep
