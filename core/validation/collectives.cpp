#include "core/validation/collectives.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/validation/hardware_words.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::pair<const char*, OpKind>, 5> kCollectives = {{
    {"all_reduce", OpKind::AllReduce},
    {"all_gather", OpKind::AllGather},
    {"reduce_scatter", OpKind::ReduceScatter},
    {"broadcast", OpKind::Broadcast},
    {"all_to_all", OpKind::AllToAll},
}};

std::string formula_of(OpKind kind, const CollectiveTime& chosen) {
  if (chosen.protocol != CollectiveProtocol::Plain) {
    return std::string(to_string(chosen.algorithm)) + ", " +
           std::string(to_string(chosen.protocol));
  }
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

struct SizeClass {
  const char* name;
  std::int64_t most;  // bytes
};
constexpr std::array<SizeClass, 5> kClasses = {{
    {"up to 32 KiB", 32 << 10},
    {"up to 1 MiB", 1 << 20},
    {"up to 16 MiB", 16 << 20},
    {"up to 256 MiB", 256 << 20},
    {"above 256 MiB", std::int64_t{1} << 62},
}};

constexpr Seconds kIssue{26e-6};
constexpr double kEfaLatencyUs = 65;

Seconds issue_of(const CollectiveRow& row) {
  return row.source.find("stas00/ml-engineering") != std::string::npos ? kIssue : Seconds{};
}

/// Keys of the scenario that say what the row's text says of its network.
std::string network_of(const CollectiveRow& row) {
  if (row.hw.find("EFA") == std::string::npos) return "";
  return "[cluster.inter_node]\nlatency_us = " + std::to_string(kEfaLatencyUs) + "\n";
}

std::optional<CollectiveAlgorithm> named_algorithm(const std::string& text) {
  if (text.starts_with("Ring")) return CollectiveAlgorithm::Ring;
  if (text.starts_with("Tree")) return CollectiveAlgorithm::Tree;
  if (text == "NVLS") return CollectiveAlgorithm::Nvls;
  return std::nullopt;
}

/// Figures of the rows of each class, in the order in which classes first appear.
template <class NameOf>
std::vector<CollectiveClass> classes_by(const std::vector<ValidatedCollective>& rows,
                                        NameOf name_of) {
  std::vector<std::pair<std::string, std::vector<double>>> errors;
  for (const ValidatedCollective& r : rows) {
    if (!r.error()) continue;
    const std::string name = name_of(r.row);
    auto at = std::find_if(errors.begin(), errors.end(),
                           [&](const auto& known) { return known.first == name; });
    if (at == errors.end()) at = errors.insert(errors.end(), {name, {}});
    at->second.push_back(*r.error());
  }
  std::vector<CollectiveClass> classes;
  for (const auto& [name, of_class] : errors) classes.push_back({name, figures_of(of_class)});
  return classes;
}

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
                                       int ranks, std::optional<CollectiveAlgorithm> only) {
  std::vector<Rank> members(to_size(ranks));
  std::iota(members.begin(), members.end(), Rank{0});
  CollectiveEstimate estimate;
  const GroupLinks links = group_links(cluster, members);
  estimate.link = links.of(kind);
  estimate.chosen = collective_time(kind, bytes, ranks, links, cluster, only);
  estimate.time = estimate.chosen.time.total();
  estimate.algorithm_bandwidth = {static_cast<double>(bytes.v) / estimate.time.v};
  estimate.bus_bandwidth = {estimate.algorithm_bandwidth.v * bus_factor(kind, ranks)};
  estimate.formula = formula_of(kind, estimate.chosen);
  estimate.over =
      links.nodes == 1 ? "links inside a node" : "ports of all nodes, a ring through each";
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

Seconds ValidatedCollective::simulated() const { return estimate->time + issue; }

std::optional<double> ValidatedCollective::error() const {
  if (!estimate || !row.time_ms) return std::nullopt;
  return simulated().v * 1e3 / *row.time_ms - 1;
}

std::vector<ValidatedCollective> validate_collectives(const std::vector<CollectiveRow>& rows) {
  std::vector<ValidatedCollective> results;
  for (const CollectiveRow& row : rows) {
    ValidatedCollective result{row, std::nullopt, issue_of(row), ""};
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
              "\"\nnodes = " + std::to_string(row.nodes) + "\n" + network_of(row),
          row.hw, {}, kOverrideFile, Software::Own);
      if (!loaded.ok()) {
        result.reason = loaded.errors.front().message;
      } else if (const ClusterSpec& cluster = loaded.points.front().scenario.cluster;
                 row.ranks > cluster.capacity()) {
        result.reason = "more ranks than the nodes have";
      } else {
        result.estimate = estimate_collective(cluster, *kind, *row.payload, row.ranks,
                                              named_algorithm(row.algorithm));
      }
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<CollectiveClass> by_size(const std::vector<ValidatedCollective>& rows) {
  std::vector<CollectiveClass> found = classes_by(rows, [](const CollectiveRow& row) {
    return std::string(std::find_if(kClasses.begin(), kClasses.end(), [&](const SizeClass& c) {
                         return row.payload->v <= c.most;
                       })->name);
  });
  std::vector<CollectiveClass> classes;
  for (const SizeClass& size : kClasses) {
    const auto at = std::find_if(found.begin(), found.end(),
                                 [&](const CollectiveClass& c) { return c.name == size.name; });
    classes.push_back(at == found.end() ? CollectiveClass{size.name, {}} : *at);
  }
  const auto all = classes_by(rows, [](const CollectiveRow&) { return std::string("all"); });
  classes.push_back(all.empty() ? CollectiveClass{"all", {}} : all.front());
  return classes;
}

std::vector<CollectiveClass> by_kind(const std::vector<ValidatedCollective>& rows) {
  return classes_by(rows, [](const CollectiveRow& row) { return row.collective; });
}

std::vector<CollectiveClass> by_machine(const std::vector<ValidatedCollective>& rows) {
  return classes_by(rows, [](const CollectiveRow& row) {
    const std::string card = row.hw.substr(0, row.hw.find(" ("));
    return row.nodes == 1 ? card : card + ", " + std::to_string(row.nodes) + " nodes";
  });
}

std::string collectives_json(const std::vector<ValidatedCollective>& rows, bool with_rows) {
  nlohmann::ordered_json json;
  const auto add = [&](const char* key, const std::vector<CollectiveClass>& classes) {
    json[key] = nlohmann::ordered_json::array();
    for (const CollectiveClass& c : classes) {
      json[key].push_back({{"class", c.name},
                           {"rows", c.time.count},
                           {"median", c.time.median},
                           {"percentile90", c.time.percentile90},
                           {"bias", c.time.bias},
                           {"within_10_percent", c.time.within_10}});
    }
  };
  add("classes", by_size(rows));
  add("kinds", by_kind(rows));
  add("machines", by_machine(rows));
  for (const ValidatedCollective& r : rows) {
    if (!with_rows) break;
    nlohmann::ordered_json row{{"hw", r.row.hw}, {"name", r.row.name()}};
    if (r.row.payload) row["bytes"] = r.row.payload->v;
    if (r.estimate) {
      row["measured_ms"] = *r.row.time_ms;
      row["simulated_ms"] = r.simulated().v * 1e3;
      row["algorithm"] = r.estimate->formula;
      row["error"] = *r.error();
    } else {
      row["reason"] = r.reason;
    }
    json["rows"].push_back(std::move(row));
  }
  return json.dump(2) + "\n";
}

}  // namespace lockstep
