// lockstep collective: prints what the cost model says of a collective, in the form of nccl-tests.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "core/base/nearest.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/validation/collectives.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kLeastSize = 8;                        // of --sweep; -b 8 of nccl-tests
constexpr std::int64_t kLargestSize = std::int64_t{8} << 30;  // -e 8G of nccl-tests

/// Parses "256MiB", "64KB" or "4096". Units with an i are powers of 1,024, those without of 1,000.
Result<Bytes> parse_bytes(const std::string& text) {
  const auto fault = [&] {
    return invalid("--bytes '" + text + "' is not a size: 4096, 64KiB, 256MiB, 1GB");
  };
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    return fault();
  }
  std::string unit = text.substr(used);
  if (!unit.empty() && unit.back() == 'B') unit.pop_back();
  const bool binary = !unit.empty() && unit.back() == 'i';
  if (binary) unit.pop_back();
  const std::string prefixes = "KMGT";
  if (unit.size() > 1 || (binary && unit.empty())) return fault();
  if (!unit.empty()) {
    const std::size_t power = prefixes.find(unit);
    if (power == std::string::npos) return fault();
    value *= std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power + 1));
  }
  if (!(value >= 1 && value < 1e17)) return fault();
  return Bytes{std::llround(value)};
}

/// The cluster of a preset's name or of a profile's file.
Result<ClusterSpec> cluster_of(const CollectiveArguments& arguments) {
  const bool preset = find_cluster_preset(arguments.cluster).has_value();
  if (!preset && !std::filesystem::exists(arguments.cluster)) {
    const std::vector<std::string> names = cluster_preset_names();
    const std::string near = nearest(arguments.cluster, names);
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return invalid("--cluster '" + arguments.cluster +
                   "' is neither a preset nor a profile's file" +
                   (near.empty() ? "; there are " + list : "; did you mean '" + near + "'?"));
  }
  const LoadedScenario loaded = parse_scenario(
      fmt::format("[model]\npreset = \"gpt2-tiny\"\n[cluster]\n{} = \"{}\"\nnodes = {}\n",
                  preset ? "preset" : "profile", arguments.cluster, arguments.nodes),
      "", {});
  if (!loaded.ok()) return loaded.errors.front();
  return loaded.points.front().scenario.cluster;
}

std::string rate_text(BytesPerSecond rate) { return fmt::format("{:.2f}", rate.v / 1e9); }

std::string size_text(Bytes bytes) { return fmt::format("{}", bytes.v); }

}  // namespace

int collective_command(const CollectiveArguments& arguments, const Console& console) {
  const auto kind = collective_named(arguments.kind);
  if (!kind) {
    const std::string near = nearest(arguments.kind, collective_names());
    std::string list;
    for (const std::string& name : collective_names()) list += (list.empty() ? "" : ", ") + name;
    return report_error(console, invalid("--kind '" + arguments.kind + "' is not a collective" +
                                         (near.empty() ? "; there are " + list
                                                       : "; did you mean '" + near + "'?")));
  }
  const Result<ClusterSpec> cluster = cluster_of(arguments);
  if (!cluster) return report_error(console, cluster.error());
  const int ranks = arguments.ranks > 0 ? arguments.ranks : cluster->capacity();
  if (ranks < 2 || ranks > cluster->capacity()) {
    return report_error(
        console, invalid(fmt::format("{} ranks: {} nodes of {} have {}, and a "
                                     "collective needs two",
                                     ranks, cluster->nodes, cluster->name, cluster->capacity())));
  }
  std::vector<Bytes> sizes;
  if (arguments.sweep) {
    for (std::int64_t size = kLeastSize; size <= kLargestSize; size *= 2) sizes.push_back({size});
  } else {
    const Result<Bytes> size = parse_bytes(arguments.bytes);
    if (!size) return report_error(console, size.error());
    sizes.push_back(*size);
  }

  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  TextTable table(
      {"size", "time (us)", "algbw (GB/s)", "busbw (GB/s)", {"algorithm", 2}, {"protocol", 1}}, 0);
  CollectiveEstimate last;
  for (const Bytes size : sizes) {
    last = estimate_collective(*cluster, *kind, size, ranks);
    table.add({size_text(size), fmt::format("{:.2f}", last.time.v * 1e6),
               rate_text(last.algorithm_bandwidth), rate_text(last.bus_bandwidth),
               std::string(to_string(last.chosen.algorithm)),
               std::string(to_string(last.chosen.protocol))});
    json.push_back({{"bytes", size.v},
                    {"time_s", last.time.v},
                    {"algbw_bytes_per_s", last.algorithm_bandwidth.v},
                    {"busbw_bytes_per_s", last.bus_bandwidth.v},
                    {"algorithm", to_string(last.chosen.algorithm)},
                    {"protocol", to_string(last.chosen.protocol)},
                    {"latency_s", last.chosen.time.latency.v},
                    {"library_estimate_s", last.chosen.estimate.v},
                    {"formula", last.formula},
                    {"over", last.over},
                    {"link_bytes_per_s", last.link.bandwidth.v},
                    {"link_latency_s", last.link.latency.v}});
  }
  if (arguments.json) {
    console.out << json_text(json);
    return 0;
  }
  const std::string head =
      fmt::format("{} of {} ranks on {} {} of {}\n", arguments.kind, ranks, cluster->nodes,
                  cluster->nodes == 1 ? "node" : "nodes", cluster->device.name) +
      (cluster->network.library == CollectiveLibrary::Ring
           ? fmt::format("{}, n = {}, α = {}, B = {} GB/s ({})\n\n", last.formula, ranks,
                         time_text(last.link.latency), rate_text(last.link.bandwidth), last.over)
           : fmt::format("as NCCL chooses; {} of {} GB/s\n\n", last.over,
                         rate_text(last.link.bandwidth)));
  console.out << wrapped(head, console.screen(), 2) << table.text(console.screen());
  return 0;
}

}  // namespace lockstep
