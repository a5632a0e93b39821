// Scenario files: TOML text -> Scenario, every fault at once with file:line:column and the nearest
// valid name; and back. Keys: docs/scenario.md.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// A scenario, or one per point of its [sweep] table (the product of its lists), in order.
struct SweepPoint {
  std::string label;  // "parallelism.pipeline_parallel_degree=4 …"; empty without [sweep]
  Scenario scenario;
};

struct LoadedScenario {
  std::vector<SweepPoint> points;  // empty exactly if there are errors
  std::vector<Error> errors;       // all faults, in file order
  std::vector<Error>
      warnings;  // of core/spec/validate/warnings.hpp, in file order; none if there are errors
  bool ok() const { return errors.empty(); }
};

/// `overrides`: "section.key=value" with a TOML value, or a bare string where a string is meant.
LoadedScenario load_scenario(const std::string& path, const std::vector<std::string>& overrides);
LoadedScenario parse_scenario(std::string_view text, const std::string& file,
                              const std::vector<std::string>& overrides);

/// The resolved scenario, every key written out; parse_scenario(print_scenario(s)) gives s, but for
/// a relative dataset, which becomes absolute, and the folder, which is that of the new file.
std::string print_scenario(const Scenario& scenario);

/// A cluster profile: the keys of [cluster] at top level, then [device] and the links (what
/// `lockstep calibrate` writes; cluster.profile reads it).
std::string print_cluster_profile(const ClusterSpec& cluster);

/// A cluster by itself: a preset's name, or a file, which is a profile or a scenario ([cluster] of
/// it). `errors` takes all faults; the result is meaningful only if there are none.
ClusterSpec load_cluster(const std::string& preset_or_file, std::vector<Error>& errors);

std::vector<std::string> model_preset_names();
std::vector<std::string> cluster_preset_names();

}  // namespace lockstep
