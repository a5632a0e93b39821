#include <algorithm>
#include <filesystem>

#include "core/base/nearest.hpp"
#include "core/base/read_file.hpp"
#include "core/ir/text/names.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/resolve.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

/// Notes figures that would make every duration meaningless, at the line of their key.
void check_figures(const ClusterSpec& c, const Node* section, const Location& otherwise,
                   Diagnostics& diagnostics) {
  const auto fault = [&](const std::string& table, const char* key, const std::string& message) {
    const Node* at = section && !table.empty() ? section->find(table) : section;
    const Node* value = at && at->is_table() ? at->find(key) : nullptr;
    if (value) {
      diagnostics.add(value->at, message, ErrorKind::InvalidSpec);
    } else {  // presets have all keys, so this is a profile
      diagnostics.add(at ? at->at : otherwise, "[" + table + "] needs '" + key + "'",
                      ErrorKind::InvalidSpec);
    }
  };
  const auto at_least_one = [&](const char* table, const char* key, int value) {
    if (value < 1) fault(table, key, std::string(key) + " must be at least 1");
  };
  const auto positive = [&](const char* table, const char* key, double value) {
    if (!(value > 0)) fault(table, key, std::string(key) + " must be positive");
  };
  const auto not_negative = [&](const char* table, const char* key, double value) {
    if (!(value >= 0)) fault(table, key, std::string(key) + " must not be negative");
  };
  positive("device", "memory_gb", static_cast<double>(c.device.memory.v));
  positive("device", "memory_bandwidth_gb_s", c.device.memory_bandwidth.v);
  positive("device", "host_bandwidth_gb_s", c.device.host_bandwidth.v);
  not_negative("device", "host_memory_bandwidth_gb_s", c.device.host_memory_bandwidth.v);
  not_negative("device", "host_memory_gb", static_cast<double>(c.device.host_memory.v));
  not_negative("device", "launch_overhead_us", c.device.launch_overhead.v);
  not_negative("device", "hand_over_us", c.device.hand_over.v);
  at_least_one("device", "concurrent_ranks", c.device.concurrent_ranks);
  if (!(c.device.overlap_slowdown >= 1)) {
    fault("device", "overlap_slowdown", "overlap_slowdown must be at least 1");
  }
  not_negative("device", "dollars_per_hour", c.device.dollars_per_hour);
  not_negative("device", "watts", c.device.watts);
  if (c.device.peaks.empty()) fault("device", "peak_tflops", "peak_tflops needs a type's rate");
  for (const PeakRate& peak : c.device.peaks) {
    positive("device", "peak_tflops", peak.rate.v);
  }
  const std::vector<std::string> kernels = text::kernel_names();
  for (const EfficiencyCurve& curve : c.device.efficiency) {
    if (curve.kernel != "*" &&
        std::find(kernels.begin(), kernels.end(), curve.kernel) == kernels.end()) {
      const std::string close = nearest(curve.kernel, kernels);
      fault("", "efficiency",
            "no kernel is called '" + curve.kernel + "'" +
                (close.empty() ? "; '*' is for all without a curve of their own"
                               : "; did you mean '" + close + "'?"));
    }
    if (curve.width < 0) fault("", "efficiency", "the width of '" + curve.kernel + "' is negative");
    const auto same = [&](const EfficiencyCurve& c) {
      return c.kernel == curve.kernel && c.width == curve.width && c.dtype == curve.dtype;
    };
    const auto& curves = c.device.efficiency;
    if (std::count_if(curves.begin(), curves.end(), same) > 1) {
      fault("", "efficiency",
            "two curves of '" + curve.kernel + "' of one dtype have the width " +
                std::to_string(curve.width));
    }
    double last = 0;
    for (const EfficiencyPoint& point : curve.points) {
      if (!(point.ideal.v > last && point.efficiency > 0)) {
        fault("", "efficiency",
              "points of '" + curve.kernel + "' must have ascending times and positive efficiency");
        break;
      }
      last = point.ideal.v;
    }
    if (curve.points.empty()) fault("", "efficiency", "'" + curve.kernel + "' has no points");
  }
  for (const auto& [table, link] :
       {std::pair<const char*, const LinkSpec&>{"intra_node", c.intra_node},
        {"inter_node", c.inter_node}}) {
    positive(table, "bandwidth_gb_s", link.bandwidth.v);
    not_negative(table, "latency_us", link.latency.v);
  }
  const NetworkSpec& n = c.network;
  not_negative("network", "in_switch_reduction_gb_s", n.in_switch_reduction.v);
  positive("network", "low_latency_gb_s", n.low_latency.v);
  at_least_one("network", "channels", n.channels);
  not_negative("network", "ports_per_node", n.ports_per_node);
  not_negative("network", "sockets_gb_s", n.sockets.v);
  not_negative("network", "leaf_ports", n.leaf_ports);
  if (!(n.oversubscription >= 1)) {
    fault("network", "oversubscription", "oversubscription must be at least 1");
  }
  not_negative("network", "spine_latency_us", n.spine_latency.v);
  const DriveSpec& d = c.drives;
  not_negative("drives", "count", d.count);
  if (d.count > 0) {
    positive("drives", "read_gb_s", d.read.v);
    positive("drives", "write_gb_s", d.write.v);
  }
  not_negative("drives", "capacity_gb", static_cast<double>(d.capacity.v));
  not_negative("drives", "latency_us", d.latency.v);
  at_least_one("drives", "queue_depth", d.queue_depth);
  positive("drives", "request_mb", static_cast<double>(d.request.v));
}

bool read_profile(std::string_view text, const std::string& file, const std::string& name,
                  ProfileCache& profiles, Diagnostics& diagnostics, ClusterSpec& out) {
  if (const auto cached = profiles.find(file); cached != profiles.end()) {
    out = cached->second;
    return true;
  }
  Result<Node> root = parse_document(text, file);
  if (!root) {
    diagnostics.add({*root.error().where, {}}, root.error().message);
    return false;
  }
  Diagnostics faults;
  Reader in(&*root, "", faults);
  out.name = name;
  describe(in, out);
  in.finish();
  check_figures(out, &*root, {{file, 1, 1}, {}}, faults);
  const bool good = faults.empty();
  if (good) profiles.emplace(file, out);
  for (Error& error : faults.take()) diagnostics.add({*error.where, {}}, error.message, error.kind);
  return good;
}

}  // namespace

ClusterSpec load_cluster(const std::string& preset_or_file, std::vector<Error>& errors) {
  const std::filesystem::path path(preset_or_file);
  ClusterSpec cluster;
  ProfileCache profiles;
  Diagnostics diagnostics;
  if (const auto preset = find_cluster_preset(preset_or_file)) {
    read_profile(preset->text, "hardware/" + std::string(preset->name) + ".toml",
                 std::string(preset->name), profiles, diagnostics, cluster);
    errors = diagnostics.take();
    return cluster;
  }
  const Result<std::string> text = read_file(path.string());
  if (!text) {
    errors = {{ErrorKind::InvalidSpec,
               "there is no cluster preset and no file '" + preset_or_file + "'" +
                   suggest_and_list(preset_or_file, cluster_preset_names()),
               std::nullopt}};
    return cluster;
  }
  const Result<Node> root = parse_document(*text, preset_or_file);
  const bool scenario = root && (root->find("cluster") || root->find("model"));
  if (scenario) {
    resolve_cluster(root->find("cluster"), path.parent_path().string(), profiles, diagnostics,
                    cluster);
  } else {
    read_profile(*text, preset_or_file, path.stem().string(), profiles, diagnostics, cluster);
  }
  errors = diagnostics.take();
  return cluster;
}

bool resolve_cluster(const Node* section, const std::string& directory, ProfileCache& profiles,
                     Diagnostics& diagnostics, ClusterSpec& out) {
  Reader in(section, "cluster", diagnostics);
  std::string preset = "cpu", profile;
  in.field("preset", preset);
  in.field("profile", profile);
  bool known = true;
  if (in.given("preset") && in.given("profile")) {
    diagnostics.add(in.node("profile")->at, "give cluster.preset or cluster.profile, not both");
    known = false;
  } else if (const Node* at = in.node("profile")) {
    const auto path = (std::filesystem::path(directory) / profile).lexically_normal();
    const Result<std::string> text = read_file(path.string());
    if (text) {
      known = read_profile(*text, path.string(), path.stem().string(), profiles, diagnostics, out);
    } else {
      known = false;
      diagnostics.add(at->at, text.error().message + " (a cluster profile)");
    }
  } else if (const auto found = find_cluster_preset(preset)) {
    known = read_profile(found->text, "hardware/" + std::string(found->name) + ".toml",
                         std::string(found->name), profiles, diagnostics, out);
  } else {
    known = false;
    diagnostics.add(in.node("preset")->at, "unknown cluster preset '" + preset + "'" +
                                               suggest_and_list(preset, cluster_preset_names()));
  }
  describe(in, out);
  // What somebody measured goes before what the shape of products would say.
  const Node* device = in.node("device");
  const bool units = device != nullptr && device->find("compute_units") != nullptr;
  if (in.given("efficiency") && !units) out.device.compute_units = 0;
  in.finish();
  if (known && section) check_figures(out, section, section->at, diagnostics);
  return known;
}

}  // namespace lockstep
