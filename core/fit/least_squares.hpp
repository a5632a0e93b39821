// Least squares: fits a few bounded parameters to residuals that are costly to compute, and says
// how well the residuals determine each of them.
#pragma once

#include <Eigen/Core>
#include <functional>
#include <limits>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

struct FitParameter {
  double start = 0;
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();
  double step = 1e-3;  // of finite differences
  /// A parameter whose standard error is larger is not determined.
  double widest = std::numeric_limits<double>::infinity();
};

/// The residuals at a point, always equally many.
using ResidualFunction = std::function<Result<Eigen::VectorXd>(const Eigen::VectorXd&)>;

struct LeastSquaresOptions {
  /// Residuals above this count linearly (Huber 1964), so that an outlier does not decide.
  double outlier = std::numeric_limits<double>::infinity();
  /// The least standard deviation of a residual that is believed when parameters are judged.
  double least_noise = 0;
  /// A parameter is not determined, either, if its standard error alone moves a residual by more.
  double largest_effect = std::numeric_limits<double>::infinity();
};

enum class ParameterState {
  Fitted,
  AtLower,  // the bound keeps it there
  AtUpper,
  NoEffect,      // no residual depends on it: it keeps its start
  Undetermined,  // the residuals leave it more freedom than it may have: it keeps its start
};

struct FittedParameter {
  double value = 0;
  ParameterState state = ParameterState::Fitted;
  double standard_error = 0;  // 0 unless Fitted, or if there are no more residuals than parameters
  int confused_with = -1;     // Undetermined: the parameter that has nearly the same effect; or -1
};

struct LeastSquaresFit {
  std::vector<FittedParameter> parameters;
  Eigen::VectorXd residuals;  // at the solution
  Eigen::MatrixXd
      jacobian;  // at the solution, of every parameter; a column of zeros where it keeps its start
  /// The standard deviation of the residuals, sqrt(sum r² / (n - k)) for k fitted parameters, in
  /// which outliers count as in Huber's estimate. 0 if n <= k.
  double noise = 0;
  int iterations = 0;
  Eigen::VectorXd point() const;
};

/// Minimizes the sum of squares by Levenberg-Marquardt with forward differences. Parameters that a
/// bound stops are left out of a step (an active set), and steps end at the bounds. The covariance
/// of the others is then noise² (JᵀJ)⁻¹. As long as a parameter is not determined, the least
/// determined one goes back to its start, and the others are fitted again. Errors are those of
/// `residuals`.
Result<LeastSquaresFit> least_squares(const ResidualFunction& residuals,
                                      const std::vector<FitParameter>& parameters,
                                      const LeastSquaresOptions& options = {});

}  // namespace lockstep
