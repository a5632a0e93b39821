#include "core/validation/collectives.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/cost/cost.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/validation/mapping.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::pair<const char*, OpKind>, 5> kCollectives = {{
    {"all_reduce", OpKind::AllReduce},
    {"all_gather", OpKind::AllGather},
    {"reduce_scatter", OpKind::ReduceScatter},
    {"broadcast", OpKind::Broadcast},
    {"all_to_all", OpKind::AllToAll},
}};

std::string formula_of(OpKind kind) {
  switch (kind) {
    case OpKind::AllReduce:
      return "ring: 2(n-1)(α + S/(n·B))";
    case OpKind::AllToAll:
      return "pairwise exchange: (n-1)(α + S/(n·B))";
    case OpKind::Broadcast:
      return "pipelined chain: (n-1)α + S/B";
    default:
      return "ring: (n-1)(α + S/(n·B))";
  }
}

constexpr std::int64_t kMebibyte = 1 << 20;

struct SizeClass {
  const char* name;
  std::int64_t below;  // bytes
};
constexpr std::array<SizeClass, 4> kClasses = {{
    {"below 1 MiB", kMebibyte},
    {"1 to 16 MiB", 16 * kMebibyte},
    {"16 to 256 MiB", 256 * kMebibyte},
    {"256 MiB and more", std::int64_t{1} << 62},
}};

}  // namespace

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& [name, kind] : kCollectives) list.emplace_back(name);
    return list;
  }();
  return names;
}

std::optional<OpKind> collective_named(std::string_view name) {
  for (const auto& [known, kind] : kCollectives) {
    if (name == known) return kind;
  }
  return std::nullopt;
}

double bus_factor(OpKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case OpKind::AllReduce:
      return 2 * (n - 1) / n;
    case OpKind::Broadcast:
      return 1;
    default:
      return (n - 1) / n;
  }
}

CollectiveEstimate estimate_collective(const ClusterSpec& cluster, OpKind kind, Bytes bytes,
                                       int ranks) {
  std::vector<Rank> members(to_size(ranks));
  std::iota(members.begin(), members.end(), Rank{0});
  CollectiveEstimate estimate;
  estimate.link = group_links(cluster, members).of(kind);
  estimate.time = collective_time(kind, bytes, ranks, estimate.link).total();
  estimate.algorithm_bandwidth = {static_cast<double>(bytes.v) / estimate.time.v};
  estimate.bus_bandwidth = {estimate.algorithm_bandwidth.v * bus_factor(kind, ranks)};
  estimate.formula = formula_of(kind);
  const bool inside = ranks <= cluster.ranks_per_node();
  estimate.over = inside ? "links inside a node" : "ports of all nodes, a ring through each";
  return estimate;
}

std::string CollectiveRow::name() const {
  return collective + " over " + std::to_string(ranks) + " ranks on " + std::to_string(nodes) +
         (nodes == 1 ? " node" : " nodes") + ", " + algorithm;
}

CollectiveRows read_collective_rows(const CsvTable& table) {
  CollectiveRows result;
  require_columns(table, {"hw", "nodes", "ranks", "collective", "payload_bytes", "time_ms"},
                  result.errors);
  if (!result.errors.empty()) return result;
  for (const std::vector<CsvField>& fields : table.rows) {
    CsvRowReader read(table, fields, result.errors);
    CollectiveRow row;
    row.source = read.text("source");
    row.hw = read.needed("hw");
    row.collective = read.needed("collective");
    row.algorithm = read.text("algorithm");
    row.nodes = static_cast<int>(read.count("nodes").value_or(1));
    row.ranks = static_cast<int>(read.count("ranks").value_or(0));
    if (const auto bytes = read.count("payload_bytes")) row.payload = Bytes{*bytes};
    row.time_ms = read.number("time_ms");
    result.rows.push_back(std::move(row));
  }
  return result;
}

std::optional<double> ValidatedCollective::error() const {
  if (!estimate || !row.time_ms) return std::nullopt;
  return estimate->time.v * 1e3 / *row.time_ms - 1;
}

std::vector<ValidatedCollective> validate_collectives(const std::vector<CollectiveRow>& rows) {
  std::vector<ValidatedCollective> results;
  for (const CollectiveRow& row : rows) {
    ValidatedCollective result{row, std::nullopt, ""};
    const auto kind = collective_named(row.collective);
    const std::string_view profile = profile_of(row.hw);
    if (!kind) {
      result.reason = "not a collective";
    } else if (profile.empty()) {
      result.reason = "no profile of the card";
    } else if (!row.payload || !row.time_ms || row.ranks < 2) {
      result.reason = "size or time not given";
    } else {
      const LoadedScenario loaded = parse_scenario(
          "[model]\npreset = \"gpt2-tiny\"\n[cluster]\npreset = \"" + std::string(profile) +
              "\"\nnodes = " + std::to_string(row.nodes) + "\n",
          row.hw, {});
      if (!loaded.ok()) {
        result.reason = loaded.errors.front().message;
      } else if (const ClusterSpec& cluster = loaded.points.front().scenario.cluster;
                 row.ranks > cluster.capacity()) {
        result.reason = "more ranks than the nodes have";
      } else {
        result.estimate = estimate_collective(cluster, *kind, *row.payload, row.ranks);
      }
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<CollectiveClass> by_size(const std::vector<ValidatedCollective>& rows) {
  std::vector<CollectiveClass> classes;
  std::int64_t from = 0;
  for (const SizeClass& size : kClasses) {
    std::vector<double> errors;
    for (const ValidatedCollective& r : rows) {
      if (!r.error() || r.row.payload->v < from || r.row.payload->v >= size.below) continue;
      errors.push_back(*r.error());
    }
    classes.push_back({size.name, figures_of(errors)});
    from = size.below;
  }
  std::vector<double> all;
  for (const ValidatedCollective& r : rows) {
    if (r.error()) all.push_back(*r.error());
  }
  classes.push_back({"all", figures_of(all)});
  return classes;
}

std::string collectives_json(const std::vector<ValidatedCollective>& rows, bool with_rows) {
  nlohmann::ordered_json json;
  for (const CollectiveClass& c : by_size(rows)) {
    json["classes"].push_back({{"class", c.name},
                               {"rows", c.time.count},
                               {"median", c.time.median},
                               {"percentile90", c.time.percentile90},
                               {"bias", c.time.bias},
                               {"within_10_percent", c.time.within_10}});
  }
  for (const ValidatedCollective& r : rows) {
    if (!with_rows) break;
    nlohmann::ordered_json row{{"hw", r.row.hw}, {"name", r.row.name()}};
    if (r.row.payload) row["bytes"] = r.row.payload->v;
    if (r.estimate) {
      row["measured_ms"] = *r.row.time_ms;
      row["simulated_ms"] = r.estimate->time.v * 1e3;
      row["error"] = *r.error();
    } else {
      row["reason"] = r.reason;
    }
    json["rows"].push_back(std::move(row));
  }
  return json.dump(2) + "\n";
}

}  // namespace lockstep
