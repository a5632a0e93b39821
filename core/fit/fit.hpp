// Fit: finds the constants with which the simulator comes closest to measured times, and says how
// certain they are and how well they predict what they were not fitted to. docs/fit.md has the
// method.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/units.hpp"
#include "core/cluster/cluster.hpp"
#include "core/fit/constants.hpp"
#include "core/fit/least_squares.hpp"

namespace lockstep {

/// Returns the time of one thing on a cluster, which may differ from the thing's own cluster in its
/// figures only. Thread-safe.
using TimeModel = std::function<Result<Seconds>(const ClusterSpec&)>;

/// Something whose time was measured: a step, a kernel, a collective.
struct Observation {
  std::string name;
  std::string group;  // the rows of one source, which are left out together
  Seconds measured;   // above 0
  ClusterSpec cluster;
  TimeModel model;
  bool fitted = true;  // false: only compared
};

enum class LeaveOut { Row, Group };

struct FitOptions {
  LeaveOut leave_out = LeaveOut::Row;
  int threads = 1;
  /// Called after each simulation by one thread at a time.
  std::function<void(std::size_t simulations)> progress;
};

struct FittedConstant {
  FitTarget target;
  std::vector<std::string> profiles;  // the profiles or presets that it is of, sorted
  double before = 0, value = 0;       // in the unit of the key
  double low = 0, high = 0;  // two standard errors below and above the value; both 0: not known
  ParameterState state = ParameterState::Fitted;
  std::string confused_with;  // Undetermined: the constant with nearly the same effect; or empty
};

struct FittedRow {
  std::string name, group;
  bool fitted = true;
  Seconds measured;
  Seconds before, after;  // simulated, with the profile's constants and with the fitted ones
  /// Simulated with constants that were fitted without this row, or without its group.
  Seconds left_out;
};

struct Fit {
  std::vector<FittedConstant> constants;
  std::vector<FittedRow> rows;
  /// The constants as fitted without each group (only with LeaveOut::Group), in the order of the
  /// groups' first rows.
  struct Without {
    std::string group;
    std::vector<double> values;  // by constant
  };
  std::vector<Without> without;
  double noise = 0;  // standard deviation of log(simulated / measured); 0: not known
  std::size_t simulations = 0;
  /// Returns `cluster` with the values of those fitted constants that cover it.
  ClusterSpec applied(ClusterSpec cluster) const;
};

/// Chooses the constants that the rows can tell, at most one for three rows. It begins with none
/// and adds one at a time: the one with which the fit predicts left-out rows best, as linearized
/// where the constants before it led. It ends when the best one takes less than a twentieth off
/// their error.
Result<std::vector<FitTarget>> choose_fit_targets(const std::vector<Observation>& rows,
                                                  const FitOptions& options = {});

/// Fits the constants to the rows. The residual of a row is log(simulated / measured); one above
/// 0.05 counts linearly, so that an outlier does not decide. To predict what is left out, the
/// constants are fitted without it to the linearization of the fit, and it is then simulated with
/// them. Errors: InvalidSpec if no row is fitted or a constant covers none; those of the models.
Result<Fit> fit_constants_to(const std::vector<Observation>& rows,
                             const std::vector<FitTarget>& targets, const FitOptions& options = {});

}  // namespace lockstep
