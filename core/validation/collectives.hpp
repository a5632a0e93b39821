// Collectives: what the cost model says of a collective, in the terms of nccl-tests, and a
// comparison with measurements.
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

/// The names of collectives: "all_reduce", "all_gather", "reduce_scatter", "broadcast",
/// "all_to_all".
const std::vector<std::string>& collective_names();
std::optional<OpKind> collective_named(std::string_view name);

/// The bus bandwidth of nccl-tests over its algorithm bandwidth, which is how often the links of a
/// ring carry a byte: 2(n-1)/n for all-reduce; (n-1)/n for all-gather, reduce-scatter and
/// all-to-all; 1 for broadcast.
double bus_factor(OpKind kind, int ranks);

struct CollectiveEstimate {
  Seconds time;
  BytesPerSecond algorithm_bandwidth;  // bytes / time, nccl-tests' algbw
  BytesPerSecond bus_bandwidth;
  LinkSpec link;        // the link that the formula uses
  std::string formula;  // the formula of core/cost: "2(n-1)(α + S/(n·B))"
  std::string over;     // what the link is: "links inside a node"
};
/// Estimates a collective. `bytes` is the size of nccl-tests, that of the larger buffer of a rank.
/// The group is the first `ranks` of the cluster, at least 2 and at most its capacity.
CollectiveEstimate estimate_collective(const ClusterSpec& cluster, OpKind kind, Bytes bytes,
                                       int ranks);

/// A line of validation/collectives.csv.
struct CollectiveRow {
  std::string source, hw, collective, algorithm;
  int nodes = 1, ranks = 0;
  std::optional<Bytes> payload;
  std::optional<double> time_ms;
  std::string name() const;  // "all_reduce on 8 of B200 …"
};
struct CollectiveRows {
  std::vector<CollectiveRow> rows;
  std::vector<Error> errors;
};
CollectiveRows read_collective_rows(const CsvTable& table);

struct ValidatedCollective {
  CollectiveRow row;
  std::optional<CollectiveEstimate> estimate;
  std::string reason;                   // why there is no estimate
  std::optional<double> error() const;  // error of the time: simulated / measured - 1
};
std::vector<ValidatedCollective> validate_collectives(const std::vector<CollectiveRow>& rows);

/// Errors by the size of messages: below 1 MiB (where latency counts), below 16 and below 256 MiB,
/// and above (where bandwidth counts).
struct CollectiveClass {
  std::string name;
  ErrorFigures time;
};
std::vector<CollectiveClass> by_size(const std::vector<ValidatedCollective>& rows);

std::string collectives_json(const std::vector<ValidatedCollective>& rows, bool with_rows);

}  // namespace lockstep
