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

/// A constant that can be fitted; docs/fit.md lists them. Values are in the unit of the key, as in
/// a profile.
struct FitConstant {
  std::string_view key;   // as in a profile; those of a framework begin with "framework."
  std::string_view what;  // a few words
  double lower = 0, upper = 0;
  /// true: above 0, and its logarithm is fitted; false: from 0 on, and fitted as it is.
  bool factor = true;
  double typical = 1;  // of one that is no factor: how large a change matters
  double (*get)(const ClusterSpec&);
  void (*set)(ClusterSpec&, double);
  bool of_framework() const { return key.starts_with("framework."); }
};

/// All constants that can be fitted, in the order in which they are tried.
const std::vector<FitConstant>& fit_constants();

/// A constant that is to be fitted, and the clusters that have it. All whose profile (for a
/// framework's constant: whose framework preset) matches `pattern` share one value.
struct FitTarget {
  const FitConstant* constant = nullptr;
  std::string pattern = "*";    // for ClusterSpec::name or FrameworkSpec::preset, as in a shell
  std::optional<double> start;  // empty: the value that the first profile has

  bool covers(const ClusterSpec& cluster) const;
  /// The value as the fit sees it: its logarithm if the constant is a factor.
  double coordinate(double value) const;
  double value(double coordinate) const;
  std::string name() const;  // "device.matmul_efficiency", with "@pattern" if there is one
};

/// Parses "KEY[@PATTERN][=START],...". The last word of a key suffices if no other key ends with
/// it. Error InvalidSpec if a key is unknown (with the nearest one) or ambiguous, if it is given
/// twice with the same pattern, or if a start is outside of the constant's bounds.
Result<std::vector<FitTarget>> parse_fit_targets(std::string_view text);

}  // namespace lockstep
