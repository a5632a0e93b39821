#include "core/validation/collective_question.hpp"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/nearest.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kLeastSize = 8;                        // of a sweep; -b 8 of nccl-tests
constexpr std::int64_t kLargestSize = std::int64_t{8} << 30;  // -e 8G of nccl-tests

/// Parses "256MiB", "64KB" or "4096". Units with an i are powers of 1,024, those without of 1,000.
Result<Bytes> parse_bytes(const std::string& text) {
  const auto fault = [&] {
    return invalid("bytes '" + text + "' is not a size: 4096, 64KiB, 256MiB, 1GB");
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
Result<ClusterSpec> cluster_of(const CollectiveQuestion& question) {
  const bool preset = find_cluster_preset(question.cluster).has_value();
  if (!preset && !std::filesystem::exists(question.cluster)) {
    return invalid("cluster '" + question.cluster + "' is neither a preset nor a profile's file" +
                   suggest(question.cluster, cluster_preset_names()));
  }
  const LoadedScenario loaded = parse_scenario(
      "[model]\npreset = \"gpt2-tiny\"\n[cluster]\n" + std::string(preset ? "preset" : "profile") +
          " = \"" + question.cluster + "\"\nnodes = " + std::to_string(question.nodes) + "\n",
      "", {}, kOverrideFile, Software::Own);
  if (!loaded.ok()) return loaded.errors.front();
  return loaded.points.front().scenario.cluster;
}

}  // namespace

Result<CollectiveAnswer> answer(const CollectiveQuestion& question) {
  const auto kind = collective_named(question.kind);
  if (!kind) {
    return invalid("kind '" + question.kind + "' is not a collective" +
                   suggest(question.kind, collective_names()));
  }
  Result<ClusterSpec> cluster = cluster_of(question);
  if (!cluster) return cluster.error();
  CollectiveAnswer answer;
  answer.ranks = question.ranks > 0 ? question.ranks : cluster->capacity();
  if (answer.ranks < 2 || answer.ranks > cluster->capacity()) {
    return invalid(std::to_string(answer.ranks) + " ranks: " + std::to_string(cluster->nodes) +
                   " nodes of " + cluster->name + " have " + std::to_string(cluster->capacity()) +
                   ", and a collective needs two");
  }
  std::vector<Bytes> sizes;
  if (question.sweep) {
    for (std::int64_t size = kLeastSize; size <= kLargestSize; size *= 2) sizes.push_back({size});
  } else {
    const Result<Bytes> size = parse_bytes(question.bytes);
    if (!size) return size.error();
    sizes.push_back(*size);
  }
  for (const Bytes size : sizes) {
    answer.sizes.push_back({size, estimate_collective(*cluster, *kind, size, answer.ranks)});
  }
  answer.cluster = std::move(*cluster);
  return answer;
}

std::string collective_json(const CollectiveAnswer& answer) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& [bytes, estimate] : answer.sizes) {
    json.push_back({{"bytes", bytes.v},
                    {"time_s", estimate.time.v},
                    {"algbw_bytes_per_s", estimate.algorithm_bandwidth.v},
                    {"busbw_bytes_per_s", estimate.bus_bandwidth.v},
                    {"algorithm", to_string(estimate.chosen.algorithm)},
                    {"protocol", to_string(estimate.chosen.protocol)},
                    {"latency_s", estimate.chosen.time.latency.v},
                    {"library_estimate_s", estimate.chosen.estimate.v},
                    {"formula", estimate.formula},
                    {"over", estimate.over},
                    {"link_bytes_per_s", estimate.link.bandwidth.v},
                    {"link_latency_s", estimate.link.latency.v}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
