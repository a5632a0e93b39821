#include "core/fit/constants.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "core/base/nearest.hpp"

namespace lockstep {
namespace {

/// Whether the constant "device.efficiency" scales this curve. It scales the curves of named
/// kernels, because the curve "*" says what part of the memory bandwidth copies reach. Where "*" is
/// the only curve, it scales that one.
bool is_scaled(const ClusterSpec& c, const EfficiencyCurve& curve) {
  const auto named = [](const EfficiencyCurve& e) { return e.kernel != "*"; };
  const auto& curves = c.device.efficiency;
  return named(curve) || std::none_of(curves.begin(), curves.end(), named);
}

double mean_efficiency(const ClusterSpec& c) {
  double log_sum = 0, count = 0;
  for (const EfficiencyCurve& curve : c.device.efficiency) {
    if (!is_scaled(c, curve)) continue;
    for (const EfficiencyPoint& point : curve.points) {
      log_sum += std::log(point.efficiency), ++count;
    }
  }
  return count > 0 ? std::exp(log_sum / count) : 1;
}

void set_mean_efficiency(ClusterSpec& c, double value) {
  const double factor = value / mean_efficiency(c);
  for (EfficiencyCurve& curve : c.device.efficiency) {
    if (!is_scaled(c, curve)) continue;
    for (EfficiencyPoint& point : curve.points) point.efficiency *= factor;
  }
}

std::string keys_text() {
  std::string text;
  for (const FitConstant& c : fit_constants()) {
    text += (text.empty() ? "" : ", ") + std::string(c.key);
  }
  return text;
}

Result<const FitConstant*> find_constant(const std::string& key) {
  const std::string full = key.starts_with("cluster.") ? key.substr(8) : key;
  const FitConstant* found = nullptr;
  std::vector<std::string> known;
  for (const FitConstant& c : fit_constants()) {
    if (c.key == full) return &c;
    known.emplace_back(c.key);
    if (!c.key.ends_with("." + full)) continue;
    if (found != nullptr) {
      return invalid("--fit " + key + ": both " + std::string(found->key) + " and " +
                     std::string(c.key) + " end so");
    }
    found = &c;
  }
  if (found != nullptr) return found;
  const std::string near = nearest(full, known);
  return invalid("--fit: no constant is called '" + key + "'" +
                 (near.empty() ? "; there are " + keys_text() : "; did you mean '" + near + "'?"));
}

Result<FitTarget> parse_target(std::string word) {
  FitTarget target;
  const std::size_t equals = word.find('=');
  std::string start;
  if (equals != std::string::npos) {
    start = word.substr(equals + 1);
    word.resize(equals);
  }
  const std::size_t at = word.find('@');
  if (at != std::string::npos) {
    target.pattern = word.substr(at + 1);
    word.resize(at);
  }
  const Result<const FitConstant*> constant = find_constant(word);
  if (!constant) return constant.error();
  target.constant = *constant;
  if (equals == std::string::npos) return target;
  double value = 0;
  const char* end = start.data() + start.size();
  const auto [stop, fault] = std::from_chars(start.data(), end, value);
  const FitConstant& c = *target.constant;
  if (fault != std::errc() || stop != end || !(value >= c.lower && value <= c.upper)) {
    std::ostringstream message;
    message << "--fit " << word << "=" << start << ": it starts at a number from " << c.lower
            << " to " << c.upper;
    return invalid(message.str());
  }
  target.start = value;
  return target;
}

}  // namespace

const std::vector<FitConstant>& fit_constants() {
  using C = ClusterSpec;
  static const std::vector<FitConstant> constants = {
      {"device.matmul_efficiency", "part of the peak that large products reach", 0.05, 1, true, 1,
       [](const C& c) { return c.device.matmul_efficiency; },
       [](C& c, double v) { c.device.matmul_efficiency = v; }},
      {"device.efficiency", "the kernels' efficiency curves, by their geometric mean", 0.001, 10,
       true, 1, mean_efficiency, set_mean_efficiency},
      {"device.memory_bandwidth_gb_s", "memory bandwidth of a device", 0.1, 1e5, true, 1,
       [](const C& c) { return c.device.memory_bandwidth.v / 1e9; },
       [](C& c, double v) { c.device.memory_bandwidth.v = v * 1e9; }},
      {"framework.step_us", "of a step, beside its kernels", 0, 1e7, false, 1000,
       [](const C& c) { return c.framework.step.v * 1e6; },
       [](C& c, double v) { c.framework.step.v = v * 1e-6; }},
      {"framework.layer_us", "of a block's pass, beside its kernels", 0, 1e6, false, 10,
       [](const C& c) { return c.framework.layer.v * 1e6; },
       [](C& c, double v) { c.framework.layer.v = v * 1e-6; }},
      {"device.launch_overhead_us", "fixed cost of a kernel", 0, 1e4, false, 1,
       [](const C& c) { return c.device.launch_overhead.v * 1e6; },
       [](C& c, double v) { c.device.launch_overhead.v = v * 1e-6; }},
      {"inter_node.bandwidth_gb_s", "of a port between nodes", 0.01, 1e4, true, 1,
       [](const C& c) { return c.inter_node.bandwidth.v / 1e9; },
       [](C& c, double v) { c.inter_node.bandwidth.v = v * 1e9; }},
      {"intra_node.bandwidth_gb_s", "of a device inside its node", 0.01, 1e5, true, 1,
       [](const C& c) { return c.intra_node.bandwidth.v / 1e9; },
       [](C& c, double v) { c.intra_node.bandwidth.v = v * 1e9; }},
      {"inter_node.latency_us", "of a step between nodes", 0, 1e4, false, 10,
       [](const C& c) { return c.inter_node.latency.v * 1e6; },
       [](C& c, double v) { c.inter_node.latency.v = v * 1e-6; }},
      {"intra_node.latency_us", "of a step inside a node", 0, 1e4, false, 1,
       [](const C& c) { return c.intra_node.latency.v * 1e6; },
       [](C& c, double v) { c.intra_node.latency.v = v * 1e-6; }},
      {"framework.host_kernel_us", "least time between two launches", 0, 1e4, false, 1,
       [](const C& c) { return c.framework.host_kernel.v * 1e6; },
       [](C& c, double v) { c.framework.host_kernel.v = v * 1e-6; }},
      {"framework.new_matmul_rate", "of products on a card newer than the library", 0.1, 1, true, 1,
       [](const C& c) { return c.framework.new_matmul_rate; },
       [](C& c, double v) { c.framework.new_matmul_rate = v; }},
      {"device.overlap_slowdown", "of kernels and transfers beside each other", 1, 3, true, 1,
       [](const C& c) { return c.device.overlap_slowdown; },
       [](C& c, double v) { c.device.overlap_slowdown = v; }},
      {"device.host_bandwidth_gb_s", "of copies to and from the host", 0.01, 1e4, true, 1,
       [](const C& c) { return c.device.host_bandwidth.v / 1e9; },
       [](C& c, double v) { c.device.host_bandwidth.v = v * 1e9; }},
  };
  return constants;
}

bool FitTarget::covers(const ClusterSpec& cluster) const {
  const std::string& name = constant->of_framework() ? cluster.framework.preset : cluster.name;
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

double FitTarget::coordinate(double value) const {
  return constant->factor ? std::log(value) : value;
}

double FitTarget::value(double coordinate) const {
  return constant->factor ? std::exp(coordinate) : coordinate;
}

std::string FitTarget::name() const {
  return std::string(constant->key) + (pattern == "*" ? "" : "@" + pattern);
}

Result<std::vector<FitTarget>> parse_fit_targets(std::string_view text) {
  std::vector<FitTarget> targets;
  std::istringstream words{std::string(text)};
  for (std::string word; std::getline(words, word, ',');) {
    const Result<FitTarget> target = parse_target(word);
    if (!target) return target.error();
    for (const FitTarget& other : targets) {
      if (other.name() == target->name()) return invalid("--fit names " + other.name() + " twice");
    }
    targets.push_back(*target);
  }
  if (targets.empty()) return invalid("--fit names no constant; there are " + keys_text());
  return targets;
}

}  // namespace lockstep
