#include "core/fit/fit.hpp"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"

namespace lockstep {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kOutlier = 0.05;        // a residual above this counts linearly
constexpr double kLeastNoise = 2e-3;     // the least noise of a measured time that is believed
constexpr double kWidest = 0.5;          // the largest standard error of a factor's logarithm
constexpr double kLargestEffect = 0.25;  // the most that it may move a time's logarithm
constexpr double kFactorStep = 0.01;     // of finite differences, in a factor's logarithm
constexpr double kWorthwhile = 0.95;     // the part of the error that a further constant may leave

/// Simulates rows with constants, and remembers the times. A constant that does not cover a row
/// changes nothing there, so that the row is not simulated again for it.
class Simulator {
 public:
  Simulator(const std::vector<Observation>& rows, const std::vector<FitTarget>& targets,
            const FitOptions& options)
      : rows_(rows),
        targets_(targets),
        options_(options),
        team_(options.threads),
        known_(rows.size()) {}

  struct Question {
    std::size_t row;
    VectorXd point;  // coordinates of the targets
  };
  /// The logarithms of the times, in the order of the questions. No row may be asked for twice,
  /// because several threads answer.
  Result<VectorXd> log_times(const std::vector<Question>& questions) {
    VectorXd times(static_cast<Index>(questions.size()));
    team_.each(questions.size(), [&](std::size_t i) {
      times[static_cast<Index>(i)] = log_time(questions[i].row, questions[i].point);
    });
    if (fault_) return *fault_;
    return times;
  }
  /// The logarithms of the times of all rows, with the constants of their profiles.
  Result<VectorXd> log_times_before() {
    VectorXd times(static_cast<Index>(rows_.size()));
    team_.each(rows_.size(), [&](std::size_t row) {
      times[static_cast<Index>(row)] = simulate(row, rows_[row].cluster);
    });
    if (fault_) return *fault_;
    return times;
  }
  std::size_t simulations() const { return simulations_; }

 private:
  double log_time(std::size_t row, const VectorXd& point) {
    ClusterSpec cluster = rows_[row].cluster;
    std::vector<double> relevant;
    for (std::size_t k = 0; k < targets_.size(); ++k) {
      if (!targets_[k].covers(cluster)) continue;
      const double x = point[static_cast<Index>(k)];
      relevant.push_back(x);
      targets_[k].constant->set(cluster, targets_[k].value(x));
    }
    const auto [entry, fresh] = known_[row].try_emplace(std::move(relevant), 0.0);
    if (fresh) entry->second = simulate(row, cluster);
    return entry->second;
  }

  double simulate(std::size_t row, const ClusterSpec& cluster) {
    const Result<Seconds> time = rows_[row].model(cluster);
    const std::lock_guard lock(mutex_);
    ++simulations_;
    if (options_.progress) options_.progress(simulations_);
    if (!time && !fault_) fault_ = time.error();
    return time ? std::log(std::max(time->v, 1e-12)) : 0;
  }

  const std::vector<Observation>& rows_;
  const std::vector<FitTarget>& targets_;
  const FitOptions& options_;
  ThreadTeam team_;
  std::vector<std::map<std::vector<double>, double>> known_;  // by row
  std::mutex mutex_;                                          // guards the two below
  std::optional<Error> fault_;
  std::size_t simulations_ = 0;
};

double log_measured(const Observation& row) { return std::log(row.measured.v); }

const Observation* first_covered(const std::vector<Observation>& rows, const FitTarget& target) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Observation& row) {
    return row.fitted && target.covers(row.cluster);
  });
  return found == rows.end() ? nullptr : &*found;
}

FitParameter parameter_of(const FitTarget& target, const Observation& first) {
  const FitConstant& c = *target.constant;
  FitParameter p;
  p.start = target.coordinate(target.start.value_or(c.get(first.cluster)));
  p.lower = target.coordinate(c.lower);
  p.upper = target.coordinate(c.upper);
  p.step = c.factor ? kFactorStep : 0.1 * c.typical;
  if (c.factor) p.widest = kWidest;
  return p;
}

std::vector<std::size_t> fitted_rows(const std::vector<Observation>& rows) {
  std::vector<std::size_t> fitted;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].fitted) fitted.push_back(i);
  }
  return fitted;
}

/// The residuals of the rows `which`, as a function of the targets' coordinates.
ResidualFunction residuals_of(Simulator& simulator, const std::vector<Observation>& rows,
                              const std::vector<std::size_t>& which) {
  return [&simulator, &rows, &which](const VectorXd& x) -> Result<VectorXd> {
    std::vector<Simulator::Question> questions;
    for (const std::size_t row : which) questions.push_back({row, x});
    Result<VectorXd> residuals = simulator.log_times(questions);
    if (!residuals) return residuals.error();
    for (Index i = 0; i < residuals->size(); ++i) {
      (*residuals)[i] -= log_measured(rows[which[to_size(i)]]);
    }
    return residuals;
  };
}

LeastSquaresOptions solver_options() { return {kOutlier, kLeastNoise, kLargestEffect}; }

/// Where the parameters go if the fit has only the residuals `kept`, by its linearization.
Result<VectorXd> point_without(const LeastSquaresFit& fit,
                               const std::vector<FitParameter>& parameters,
                               const std::vector<Index>& kept) {
  const VectorXd point = fit.point();
  if (kept.empty()) {
    VectorXd start(point.size());
    for (Index k = 0; k < start.size(); ++k) start[k] = parameters[to_size(k)].start;
    return start;
  }
  const auto linear = [&](const VectorXd& x) -> Result<VectorXd> {
    const VectorXd all = fit.residuals + fit.jacobian * (x - point);
    VectorXd some(static_cast<Index>(kept.size()));
    for (Index i = 0; i < some.size(); ++i) some[i] = all[kept[to_size(i)]];
    return some;
  };
  const auto without = least_squares(linear, parameters, solver_options());
  if (!without) return without.error();
  return without->point();
}

FittedConstant described(const FitTarget& target, const FitParameter& parameter,
                         const FittedParameter& fitted, const std::vector<FitTarget>& targets,
                         const std::vector<Observation>& rows) {
  FittedConstant constant;
  constant.target = target;
  constant.before = target.value(parameter.start);
  constant.value = target.value(fitted.value);
  std::set<std::string> profiles;
  for (const Observation& row : rows) {
    if (!target.covers(row.cluster)) continue;
    profiles.insert(target.constant->of_framework() ? row.cluster.framework.preset
                                                    : row.cluster.name);
  }
  constant.profiles.assign(profiles.begin(), profiles.end());
  constant.state = fitted.state;
  if (fitted.confused_with >= 0) {
    constant.confused_with = targets[to_size(fitted.confused_with)].name();
  }
  if (fitted.standard_error > 0) {
    const double margin = 2 * fitted.standard_error;
    constant.low = target.value(std::max(fitted.value - margin, parameter.lower));
    constant.high = target.value(std::min(fitted.value + margin, parameter.upper));
  }
  return constant;
}

/// The error of a linear fit of some columns at rows that it is not fitted to, each row being left
/// out in turn. It is infinite if the rows do not tell the columns apart, if one row alone decides
/// a column, or if a bound is in the way.
double left_out_error(const MatrixXd& jacobian, const VectorXd& residuals, const VectorXd& point,
                      const std::vector<Index>& chosen,
                      const std::vector<FitParameter>& parameters) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  MatrixXd j(jacobian.rows(), static_cast<Index>(chosen.size()));
  for (Index k = 0; k < j.cols(); ++k) j.col(k) = jacobian.col(chosen[to_size(k)]);
  const VectorXd norms = j.colwise().norm();  // columns are scaled to 1, for their units differ
  j = j * norms.cwiseInverse().asDiagonal();
  VectorXd left = residuals;
  VectorXd leverage = VectorXd::Zero(residuals.size());
  if (!chosen.empty()) {
    Eigen::ColPivHouseholderQR<MatrixXd> qr(j);
    qr.setThreshold(1e-3);
    if (qr.rank() < j.cols()) return kInfinite;
    const VectorXd step = qr.solve(-residuals);
    for (Index k = 0; k < step.size(); ++k) {
      const Index at = chosen[to_size(k)];
      const double there = point[at] + step[k] / norms[k];
      const FitParameter& p = parameters[to_size(at)];
      if (there < p.lower || there > p.upper) return kInfinite;
    }
    left += j * step;
    const MatrixXd q = qr.householderQ() * MatrixXd::Identity(j.rows(), j.cols());
    leverage = q.rowwise().squaredNorm();
  }
  double sum = 0;
  for (Index i = 0; i < left.size(); ++i) {
    if (leverage[i] > 1 - 1e-6) return kInfinite;
    const double size = std::abs(left[i] / (1 - leverage[i]));
    sum += size <= kOutlier ? size * size : kOutlier * (2 * size - kOutlier);
  }
  return std::sqrt(sum);
}

/// Every constant for every profile (or framework preset) that the rows have.
std::vector<FitTarget> candidates(const std::vector<Observation>& rows) {
  std::set<std::string> profiles, frameworks;
  for (const Observation& row : rows) {
    profiles.insert(row.cluster.name);
    frameworks.insert(row.cluster.framework.preset);
  }
  std::vector<FitTarget> targets;
  for (const FitConstant& constant : fit_constants()) {
    const auto& names = constant.of_framework() ? frameworks : profiles;
    if (names.size() == 1) {
      targets.push_back({&constant, "*", {}});
      continue;
    }
    for (const std::string& name : names) targets.push_back({&constant, name, {}});
  }
  return targets;
}

Result<MatrixXd> jacobian_at(const VectorXd& point, const ResidualFunction& residuals,
                             const std::vector<FitParameter>& parameters) {
  const Result<VectorXd> here = residuals(point);
  if (!here) return here.error();
  MatrixXd jacobian(here->size(), point.size());
  for (Index k = 0; k < point.size(); ++k) {
    const FitParameter& p = parameters[to_size(k)];
    const double step = point[k] + p.step <= p.upper ? p.step : -p.step;
    VectorXd there = point;
    there[k] += step;
    const Result<VectorXd> moved = residuals(there);
    if (!moved) return moved.error();
    jacobian.col(k) = (*moved - *here) / step;
  }
  return jacobian;
}

/// Moves `chosen` coordinates of `point` to where they fit best.
std::optional<Error> fit_some(const std::vector<Index>& chosen, const ResidualFunction& residuals,
                              const std::vector<FitParameter>& parameters, VectorXd& point) {
  const auto with = [&](const VectorXd& x) {
    VectorXd whole = point;
    for (Index k = 0; k < x.size(); ++k) whole[chosen[to_size(k)]] = x[k];
    return whole;
  };
  std::vector<FitParameter> some;
  for (const Index k : chosen) some.push_back(parameters[to_size(k)]);
  const auto fit =
      least_squares([&](const VectorXd& x) { return residuals(with(x)); }, some, solver_options());
  if (!fit) return fit.error();
  point = with(fit->point());
  return std::nullopt;
}

}  // namespace

ClusterSpec Fit::applied(ClusterSpec cluster) const {
  for (const FittedConstant& c : constants) {
    if (c.target.covers(cluster)) c.target.constant->set(cluster, c.value);
  }
  return cluster;
}

Result<std::vector<FitTarget>> choose_fit_targets(const std::vector<Observation>& rows,
                                                  const FitOptions& options) {
  const std::vector<FitTarget> all = candidates(rows);
  const std::vector<std::size_t> which = fitted_rows(rows);
  if (which.empty()) return invalid("there is no row to fit to");
  std::vector<FitParameter> parameters;
  VectorXd point(static_cast<Index>(all.size()));
  for (const FitTarget& target : all) {
    const Observation* first = first_covered(rows, target);
    parameters.push_back(first == nullptr ? FitParameter{} : parameter_of(target, *first));
    point[static_cast<Index>(parameters.size()) - 1] = parameters.back().start;
  }
  Simulator simulator(rows, all, options);
  const ResidualFunction residuals = residuals_of(simulator, rows, which);
  std::vector<Index> chosen;
  while (chosen.size() < std::max<std::size_t>(1, which.size() / 3)) {
    const Result<MatrixXd> jacobian = jacobian_at(point, residuals, parameters);
    if (!jacobian) return jacobian.error();
    const Result<VectorXd> r = residuals(point);
    if (!r) return r.error();
    double least = kWorthwhile * left_out_error(*jacobian, *r, point, chosen, parameters);
    Index best = -1;
    for (Index k = 0; k < point.size(); ++k) {
      if (std::find(chosen.begin(), chosen.end(), k) != chosen.end()) continue;
      if (jacobian->col(k).cwiseAbs().maxCoeff() * parameters[to_size(k)].step < 1e-7) continue;
      std::vector<Index> more = chosen;
      more.push_back(k);
      const double left = left_out_error(*jacobian, *r, point, more, parameters);
      if (left < least) least = left, best = k;
    }
    if (best < 0) break;
    chosen.push_back(best);
    if (auto fault = fit_some(chosen, residuals, parameters, point)) return *fault;
  }
  std::vector<FitTarget> targets;
  for (const Index k : chosen) targets.push_back(all[to_size(k)]);
  return targets;
}

Result<Fit> fit_constants_to(const std::vector<Observation>& rows,
                             const std::vector<FitTarget>& targets, const FitOptions& options) {
  const std::vector<std::size_t> which = fitted_rows(rows);
  if (which.empty()) return invalid("there is no row to fit to");
  std::vector<FitParameter> parameters;
  for (const FitTarget& target : targets) {
    const Observation* first = first_covered(rows, target);
    if (first == nullptr) {
      return invalid("--fit " + target.name() + ": no row that is fitted has a " +
                     (target.constant->of_framework() ? "framework preset" : "cluster profile") +
                     " of that name");
    }
    parameters.push_back(parameter_of(target, *first));
  }
  Simulator simulator(rows, targets, options);
  const auto solved =
      least_squares(residuals_of(simulator, rows, which), parameters, solver_options());
  if (!solved) return solved.error();

  Fit fit;
  fit.noise = solved->noise;
  for (std::size_t k = 0; k < targets.size(); ++k) {
    fit.constants.push_back(
        described(targets[k], parameters[k], solved->parameters[k], targets, rows));
  }
  std::map<std::string, VectorXd> points;  // by what is left out
  const auto key_of = [&](std::size_t row) {
    return options.leave_out == LeaveOut::Group ? rows[row].group : std::to_string(row);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (points.count(key_of(i)) > 0) continue;
    std::vector<Index> kept;
    for (std::size_t j = 0; j < which.size(); ++j) {
      if (key_of(which[j]) != key_of(i)) kept.push_back(static_cast<Index>(j));
    }
    const bool whole = kept.size() == which.size();
    const Result<VectorXd> point =
        whole ? solved->point() : point_without(*solved, parameters, kept);
    if (!point) return point.error();
    points.emplace(key_of(i), *point);
    if (options.leave_out == LeaveOut::Row) continue;
    fit.without.push_back({rows[i].group, {}});
    for (std::size_t k = 0; k < targets.size(); ++k) {
      fit.without.back().values.push_back(targets[k].value((*point)[static_cast<Index>(k)]));
    }
  }
  std::vector<Simulator::Question> at_solution, left_out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    at_solution.push_back({i, solved->point()});
    left_out.push_back({i, points.at(key_of(i))});
  }
  const auto before = simulator.log_times_before();
  const auto after = simulator.log_times(at_solution);
  const auto without = simulator.log_times(left_out);
  for (const auto* times : {&before, &after, &without}) {
    if (!*times) return times->error();
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto seconds = [i](const VectorXd& logs) {
      return Seconds{std::exp(logs[static_cast<Index>(i)])};
    };
    fit.rows.push_back({rows[i].name, rows[i].group, rows[i].fitted, rows[i].measured,
                        seconds(*before), seconds(*after), seconds(*without)});
  }
  fit.simulations = simulator.simulations();
  return fit;
}

}  // namespace lockstep
