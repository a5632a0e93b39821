// Collectives: what the cost model says of one, as nccl-tests prints it, and beside measurements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/units.hpp"
#include "core/cluster/cluster.hpp"
#include "core/cost/collective.hpp"
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
  CollectiveTime chosen;  // algorithm, protocol and what its time consists of
  LinkSpec link;          // a ring's, or an exchange's
  std::string formula;    // of algorithm and protocol: "2(n-1)(α + S/(n·B))"
  std::string over;       // "links inside a node"
};
/// `bytes`: nccl-tests' size, the larger buffer of a rank. `ranks`: the first of the cluster's,
/// at least 2 and at most its capacity. `only`: by this algorithm.
CollectiveEstimate estimate_collective(const ClusterSpec& cluster, OpKind kind, Bytes bytes,
                                       int ranks,
                                       std::optional<CollectiveAlgorithm> only = std::nullopt);

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
  Seconds issue;                        // what the measuring tool's host adds to the estimate
  std::string reason;                   // why there is none
  Seconds simulated() const;            // requires an estimate
  std::optional<double> error() const;  // of the time: simulated / measured - 1
};
/// A row whose algorithm is named, "NVLS" or "Ring (NVLS off)", is estimated by that algorithm.
/// Where each call is measured with the host's time to issue it (stas00/ml-engineering: PyTorch's
/// call between two events on an idle device, or nccl-tests that launch on eight GPUs from one
/// thread), that is 26 us, fitted to its rows of up to 512 KiB on 8 H200 and 8 B200. EFA adds 65 us
/// to a step, fitted to the table of 32 B200 (the AWS plugin tells NCCL 35 to 75).
std::vector<ValidatedCollective> validate_collectives(const std::vector<CollectiveRow>& rows);

struct CollectiveClass {
  std::string name;
  ErrorFigures time;
};
/// Messages of up to 32 KiB, 1 MiB, 16 MiB, 256 MiB, and above; then all.
std::vector<CollectiveClass> by_size(const std::vector<ValidatedCollective>& rows);
/// By collective, and by card and number of nodes, in the order of the rows that have an estimate.
std::vector<CollectiveClass> by_kind(const std::vector<ValidatedCollective>& rows);
std::vector<CollectiveClass> by_machine(const std::vector<ValidatedCollective>& rows);

std::string collectives_json(const std::vector<ValidatedCollective>& rows, bool with_rows);

}  // namespace lockstep
