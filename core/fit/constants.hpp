// Constants: the figures of a machine and of its framework that measured times can tell, and the
// choice of those that a fit changes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"

namespace lockstep {

/// A row of the table; docs/fit.md lists it. Values are in the unit of the key, as in a profile.
struct FitConstant {
  std::string_view key;   // as in a profile, "framework." before those of a framework's
  std::string_view what;  // a few words
  double lower = 0, upper = 0;
  bool factor = true;  // above 0, and fitted as its logarithm; false: fitted as it is, from 0 on
  double typical = 1;  // of one that is no factor: how much of it matters
  double (*get)(const ClusterSpec&);
  void (*set)(ClusterSpec&, double);
  bool of_framework() const { return key.starts_with("framework."); }
};

/// All constants that can be fitted, in the order in which they are tried.
const std::vector<FitConstant>& fit_constants();

/// A constant, and which clusters have it: all whose profile (framework preset) matches `pattern`
/// share one value.
struct FitTarget {
  const FitConstant* constant = nullptr;
  std::string pattern = "*";    // of ClusterSpec::name or FrameworkSpec::preset; as of a shell
  std::optional<double> start;  // empty: as the first profile has it

  bool covers(const ClusterSpec& cluster) const;
  /// The value as the fit sees it: its logarithm if the constant is a factor.
  double coordinate(double value) const;
  double value(double coordinate) const;
  std::string name() const;  // "device.matmul_efficiency", with "@pattern" if there is one
};

/// Parses "KEY[@PATTERN][=START],...". The last word of a key suffices if no other key ends with
/// it. Error InvalidSpec, with the nearest key: an unknown or ambiguous one, one given twice with
/// the same pattern, or a start that is outside of its bounds.
Result<std::vector<FitTarget>> parse_fit_targets(std::string_view text);

}  // namespace lockstep
