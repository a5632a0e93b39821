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

/// The time of one thing on a cluster that may differ from its own in its figures only.
/// Thread-safe.
using TimeModel = std::function<Result<Seconds>(const ClusterSpec&)>;

/// Something whose time was measured: a step, a kernel, a collective.
struct Observation {
  std::string name;
  std::string group;  // rows of one source, that are left out together
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
  std::vector<std::string> profiles;  // that it is of, sorted
  double before = 0, value = 0;       // in the unit of the key
  double low = 0, high = 0;           // two standard errors below and above; both 0: not known
  ParameterState state = ParameterState::Fitted;
  std::string confused_with;  // Undetermined: the constant with nearly the same effect; or empty
};

struct FittedRow {
  std::string name, group;
  bool fitted = true;
  Seconds measured;
  Seconds before, after;  // simulated, with the profile's constants and with the fitted ones
  /// With constants that were fitted without this row, or without its group.
  Seconds left_out;
};

struct Fit {
  std::vector<FittedConstant> constants;
  std::vector<FittedRow> rows;
  /// Constants of each left-out group (only of LeaveOut::Group), by the order of first rows.
  struct Without {
    std::string group;
    std::vector<double> values;  // by constant
  };
  std::vector<Without> without;
  double noise = 0;  // standard deviation of log(simulated / measured); 0: not known
  std::size_t simulations = 0;
  /// `cluster` with the fitted constants that cover it.
  ClusterSpec applied(ClusterSpec cluster) const;
};

/// The constants that the rows can tell, at most one for three rows. From none on, the one is added
/// with which the fit, linearized where the constants before it led, predicts left-out rows best,
/// as long as that takes a twentieth off their error.
Result<std::vector<FitTarget>> choose_fit_targets(const std::vector<Observation>& rows,
                                                  const FitOptions& options = {});

/// Fits. The residual of a row is log(simulated / measured); one above 0.05 counts linearly. What
/// is left out is fitted without it to the fit's linearization, and then simulated. Errors:
/// InvalidSpec if no row is fitted or a constant covers none; those of the models.
Result<Fit> fit_constants_to(const std::vector<Observation>& rows,
                             const std::vector<FitTarget>& targets, const FitOptions& options = {});

}  // namespace lockstep
