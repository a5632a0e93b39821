// Scenario files: reads TOML text as a Scenario, and prints a Scenario as text. All faults of a
// file are reported at once, with file:line:column and the nearest valid name. docs/scenario.md
// describes the keys.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// One point of the [sweep] table, which stands for the product of its lists; or the one scenario
/// of a file without [sweep].
struct SweepPoint {
  std::string label;  // "parallelism.pipeline_parallel_degree=4 …"; empty without [sweep]
  Scenario scenario;
};

/// SourceSpan::file of what an override on the command line gives.
inline constexpr const char* kOverrideFile = "--set";

/// Which software runs a scenario whose [framework] names none.
enum class Software {
  Usual,  // on GPUs what people run such a layout with (core/spec/usual_framework.hpp)
  Own,    // Lockstep's own kernels, as its real backends do
};

struct LoadedScenario {
  std::vector<SweepPoint> points;  // empty exactly if there are errors
  std::vector<Error> errors;       // all faults, in file order
  /// Those of core/spec/validate/warnings.hpp, in file order; none if there are errors.
  std::vector<Error> warnings;
  /// Keys to which overrides give another value than the file has, so that its [expect] is of
  /// something else. Not among them are [expect] itself, what decides nothing that a report has
  /// (name, [checkpoint], [campaign]), and keys of [sweep] that get one of its values.
  std::vector<std::string> departures = {};
  bool ok() const { return errors.empty(); }
};

/// Loads a scenario. An override is "section.key=value" with a TOML value, or a bare string where a
/// string is meant. Faults of one name `given_by`, the option or argument that gave it.
LoadedScenario load_scenario(const std::string& path, const std::vector<std::string>& overrides,
                             const std::string& given_by = kOverrideFile,
                             Software software = Software::Usual);
LoadedScenario parse_scenario(std::string_view text, const std::string& file,
                              const std::vector<std::string>& overrides,
                              const std::string& given_by = kOverrideFile,
                              Software software = Software::Usual);

/// The text of a resolved scenario, with every key written out. parse_scenario(print_scenario(s))
/// gives s, except that relative paths become absolute and the folder is that of the new file.
std::string print_scenario(const Scenario& scenario);

/// What to override in `from` to get `to`: "section.key=value" for each key whose value differs.
/// The name, expectations and lists of tables are left out.
std::vector<std::string> differences(const Scenario& from, const Scenario& to);

/// The text of a cluster profile: the keys of [cluster] at top level, then [device] and the links.
/// `lockstep calibrate` writes it; the key cluster.profile reads it.
std::string print_cluster_profile(const ClusterSpec& cluster);

/// The text of a framework's profile: the keys of [framework] at top level, which the key
/// framework.profile reads.
std::string print_framework_profile(const FrameworkSpec& framework);

/// Loads a cluster alone: from a preset's name, from a profile, or from [cluster] of a scenario
/// file. All faults are added to `errors`; the result is meaningful only if there are none.
ClusterSpec load_cluster(const std::string& preset_or_file, std::vector<Error>& errors);

std::vector<std::string> model_preset_names();
std::vector<std::string> cluster_preset_names();
std::vector<std::string> framework_preset_names();

}  // namespace lockstep
