#include <algorithm>
#include <filesystem>

#include "core/base/nearest.hpp"
#include "core/base/read_file.hpp"
#include "core/ir/text/names.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/resolve.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {
namespace {

/// Notes figures that would make every duration meaningless, at the line of their key.
void check_figures(const ClusterSpec& c, const Node* section, const Location& otherwise,
                   Diagnostics& diagnostics) {
  const auto fault = [&](const std::string& table, const std::string& key,
                         const std::string& message) {
    const Node* at = section && !table.empty() ? section->find(table) : section;
    const Node* value = at && at->is_table() ? at->find(key) : nullptr;
    if (value) {
      diagnostics.add(value->at, message, ErrorKind::InvalidSpec);
    } else {  // presets have all keys, so this is a profile
      diagnostics.add(at ? at->at : otherwise, "[" + table + "] needs '" + key + "'",
                      ErrorKind::InvalidSpec);
    }
  };
  const auto positive = [&](const char* table, const char* key, double value) {
    if (!(value > 0)) fault(table, key, std::string(key) + " must be positive");
  };
  for (const Fault& found : faults_of_keys(c)) {
    const std::size_t dot = found.key.find('.');
    // What stands in no table is of a scenario, too, which validate() judges.
    if (dot != std::string::npos) {
      fault(found.key.substr(0, dot), found.key.substr(dot + 1), found.error.message);
    }
  }
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
  if (c.drives.count > 0) {
    positive("drives", "read_gb_s", c.drives.read.v);
    positive("drives", "write_gb_s", c.drives.write.v);
  }
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
