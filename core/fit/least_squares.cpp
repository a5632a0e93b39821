#include "core/fit/least_squares.hpp"

#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kMostIterations = 30;
constexpr int kMostDampings = 8;
// Distances in steps of the finite differences:
constexpr double kShortest = 0.01;  // a shorter step ends the search
constexpr double kNear = 0.5;       // derivatives from this near are those of the solution
constexpr double kFar = 2;          // derivatives from this far away are taken anew

/// Huber's weights: 1 up to `outlier`, and outlier / |r| above.
VectorXd weights(const VectorXd& residuals, double outlier) {
  return residuals.unaryExpr(
      [&](double r) { return std::abs(r) <= outlier ? 1.0 : outlier / std::abs(r); });
}

double cost(const VectorXd& residuals, double outlier) {
  double sum = 0;
  for (const double r : residuals) {
    const double size = std::abs(r);
    sum += size <= outlier ? r * r : outlier * (2 * size - outlier);
  }
  return sum;
}

VectorXd gathered(const VectorXd& from, const std::vector<Index>& at) {
  VectorXd result(static_cast<Index>(at.size()));
  for (Index i = 0; i < result.size(); ++i) result[i] = from[at[to_size(i)]];
  return result;
}

MatrixXd columns(const MatrixXd& from, const std::vector<Index>& at) {
  MatrixXd result(from.rows(), static_cast<Index>(at.size()));
  for (Index i = 0; i < result.cols(); ++i) {
    result.col(i) = from.col(at[to_size(i)]);
  }
  return result;
}

class Solver {
 public:
  Solver(const ResidualFunction& residuals, const std::vector<FitParameter>& parameters,
         const LeastSquaresOptions& options)
      : residuals_(residuals), parameters_(parameters), options_(options) {
    const auto count = static_cast<Index>(parameters.size());
    fit_.parameters.resize(parameters.size());
    x_.resize(count);
    for (Index k = 0; k < count; ++k) {
      x_[k] = std::clamp(of(k).start, of(k).lower, of(k).upper);
      active_.push_back(k);
    }
  }

  Result<LeastSquaresFit> solve() {
    if (auto fault = evaluate(x_, r_)) return *fault;
    for (;;) {
      if (auto fault = minimize()) return *fault;
      const Index worst = judge();
      if (worst < 0) break;
      active_.erase(std::find(active_.begin(), active_.end(), worst));
      x_[worst] = of(worst).start;
      if (auto fault = evaluate(x_, r_)) return *fault;
    }
    for (Index k = 0; k < x_.size(); ++k) {
      fit_.parameters[to_size(k)].value = x_[k];
    }
    fit_.residuals = r_;
    fit_.jacobian = j_;
    return fit_;
  }

 private:
  const FitParameter& of(Index k) const { return parameters_[to_size(k)]; }
  FittedParameter& fitted(Index k) { return fit_.parameters[to_size(k)]; }

  std::optional<Error> evaluate(const VectorXd& x, VectorXd& r) const {
    Result<VectorXd> result = residuals_(x);
    if (!result) return result.error();
    r = std::move(*result);
    return std::nullopt;
  }

  std::optional<Error> differentiate() {
    j_ = MatrixXd::Zero(r_.size(), x_.size());
    for (const Index k : active_) {
      VectorXd there = x_, r;
      const double step = x_[k] + of(k).step <= of(k).upper ? of(k).step : -of(k).step;
      there[k] += step;
      if (auto fault = evaluate(there, r)) return fault;
      j_.col(k) = (r - r_) / step;
    }
    return std::nullopt;
  }

  /// The active parameters that no bound stops: those inside their bounds, and those at a bound
  /// that would move away from it to the inside.
  std::vector<Index> free_parameters(const VectorXd& gradient) const {
    std::vector<Index> free;
    for (const Index k : active_) {
      const bool stopped =
          (x_[k] <= of(k).lower && gradient[k] >= 0) || (x_[k] >= of(k).upper && gradient[k] <= 0);
      if (!stopped) free.push_back(k);
    }
    return free;
  }

  /// The damped step of Levenberg and Marquardt, cut off at the bounds.
  VectorXd stepped(const MatrixXd& normal, const VectorXd& gradient, const std::vector<Index>& free,
                   double damping) const {
    MatrixXd a(static_cast<Index>(free.size()), static_cast<Index>(free.size()));
    for (Index i = 0; i < a.rows(); ++i) {
      for (Index j = 0; j < a.cols(); ++j) {
        a(i, j) = normal(free[to_size(i)], free[to_size(j)]);
      }
    }
    a.diagonal() *= 1 + damping;
    const VectorXd step = a.completeOrthogonalDecomposition().solve(-gathered(gradient, free));
    VectorXd there = x_;
    for (Index i = 0; i < step.size(); ++i) {
      const Index k = free[to_size(i)];
      there[k] = std::clamp(x_[k] + step[i], of(k).lower, of(k).upper);
    }
    return there;
  }

  /// How far a point is from the present one, in steps of the finite differences.
  double distance(const VectorXd& there) const {
    double most = 0;
    for (const Index k : active_) most = std::max(most, std::abs(there[k] - x_[k]) / of(k).step);
    return most;
  }

  /// Goes to a point that is better than the present one. A step that is too short to matter is not
  /// tried, because residuals are costly. Returns how far it went; 0 if it did not.
  Result<double> advance(double& damping) {
    const VectorXd w = weights(r_, options_.outlier);
    const VectorXd gradient = j_.transpose() * w.cwiseProduct(r_);
    const MatrixXd normal = j_.transpose() * w.asDiagonal() * j_;
    const std::vector<Index> free = free_parameters(gradient);
    if (free.empty()) return 0.0;
    for (int d = 0; d < kMostDampings; ++d) {
      const VectorXd there = stepped(normal, gradient, free, damping);
      const double length = distance(there);
      if (length < kShortest) return 0.0;
      VectorXd r;
      if (auto fault = evaluate(there, r)) return *fault;
      if (cost(r, options_.outlier) < cost(r_, options_.outlier)) {
        damping *= 0.1;
        x_ = there;
        r_ = r;
        return length;
      }
      damping *= 10;
    }
    return 0.0;
  }

  std::optional<Error> minimize() {
    double damping = 1e-4, moved = 0;  // moved: since the derivatives were taken
    if (auto fault = differentiate()) return fault;
    for (int i = 0; i < kMostIterations; ++i) {
      ++fit_.iterations;
      const Result<double> length = advance(damping);
      if (!length) return length.error();
      moved += *length;
      if (*length == 0 && moved < kNear) return std::nullopt;
      if (*length > 0 && moved < kFar) continue;  // the derivatives still hold
      if (auto fault = differentiate()) return fault;
      moved = 0;
    }
    return moved == 0 ? std::nullopt : differentiate();
  }

  /// Fills in the states, errors and noise. Returns the parameter that is least determined, or -1
  /// if all are determined.
  Index judge() {
    const VectorXd w = weights(r_, options_.outlier);
    const std::vector<Index> free = free_parameters(j_.transpose() * w.cwiseProduct(r_));
    for (const Index k : active_) {
      fitted(k) = {};
      if (std::find(free.begin(), free.end(), k) != free.end()) continue;
      fitted(k).state = x_[k] <= of(k).lower ? ParameterState::AtLower : ParameterState::AtUpper;
    }
    for (const Index k : active_) {  // also one that stands at its bound
      if (j_.col(k).cwiseAbs().maxCoeff() * of(k).step > 1e-9) continue;
      fitted(k) = {0, ParameterState::NoEffect, 0, -1};
      return k;
    }
    const Index freedom = r_.size() - static_cast<Index>(free.size());
    fit_.noise = freedom > 0 ? noise_of(freedom) : 0;
    if (free.empty()) return -1;
    return spread(free, freedom);
  }

  /// The standard deviation of the residuals, as an estimate with Huber's weights sees it: sqrt(sum
  /// min(|r|, outlier)² / freedom) over the part that is no outlier (Huber 1981, Robust Statistics,
  /// 7.6).
  double noise_of(Index freedom) const {
    double sum = 0, inside = 0;
    for (const double r : r_) {
      const double size = std::abs(r);
      sum += std::pow(std::min(size, options_.outlier), 2);
      inside += size <= options_.outlier ? 1 : 0;
    }
    const auto count = static_cast<double>(r_.size());
    return std::sqrt(sum / static_cast<double>(freedom)) * count / std::max(inside, 1.0);
  }

  /// Fills in the standard errors of the free parameters. Returns the least determined one, after
  /// saying with which other it is confused, or -1 if all are determined.
  Index spread(const std::vector<Index>& free, Index freedom) {
    MatrixXd scaled = columns(j_, free);
    const VectorXd norms = scaled.colwise().norm();
    scaled = scaled * norms.cwiseInverse().asDiagonal();
    const Eigen::JacobiSVD<MatrixXd> svd(scaled, Eigen::ComputeThinU | Eigen::ComputeFullV);
    VectorXd inverse = VectorXd::Constant(scaled.cols(), 1e6);  // of the singular values
    for (Index i = 0; i < svd.singularValues().size(); ++i) {
      inverse[i] = 1 / std::max(svd.singularValues()[i], 1e-6);
    }
    const MatrixXd root = svd.matrixV() * inverse.asDiagonal();
    const MatrixXd covariance = root * root.transpose();  // for noise 1 and columns of norm 1
    const double noise = std::max(fit_.noise, options_.least_noise);
    Index worst = -1;
    double most = 1;
    for (Index i = 0; i < scaled.cols(); ++i) {
      const Index k = free[to_size(i)];
      const double error = std::sqrt(covariance(i, i)) / norms[i];
      if (freedom > 0) fitted(k).standard_error = fit_.noise * error;
      const double effect = noise * error * j_.col(k).cwiseAbs().maxCoeff();
      const double excess =
          std::max(noise * error / of(k).widest, effect / options_.largest_effect);
      if (excess > most) most = excess, worst = i;
    }
    if (worst < 0) return -1;
    const Index k = free[to_size(worst)];
    fitted(k) = {0, ParameterState::Undetermined, 0, -1};
    double closest = 0.9;  // the least correlation of parameters that are confused
    for (Index i = 0; i < scaled.cols(); ++i) {
      const double together =
          std::abs(covariance(worst, i)) / std::sqrt(covariance(worst, worst) * covariance(i, i));
      if (i == worst || together < closest) continue;
      closest = together;
      fitted(k).confused_with = static_cast<int>(free[to_size(i)]);
    }
    return k;
  }

  const ResidualFunction& residuals_;
  const std::vector<FitParameter>& parameters_;
  const LeastSquaresOptions& options_;
  LeastSquaresFit fit_;
  std::vector<Index> active_;  // those that have not gone back to their start
  VectorXd x_, r_;
  MatrixXd j_;
};

}  // namespace

VectorXd LeastSquaresFit::point() const {
  VectorXd x(static_cast<Index>(parameters.size()));
  for (Index k = 0; k < x.size(); ++k) x[k] = parameters[to_size(k)].value;
  return x;
}

Result<LeastSquaresFit> least_squares(const ResidualFunction& residuals,
                                      const std::vector<FitParameter>& parameters,
                                      const LeastSquaresOptions& options) {
  return Solver(residuals, parameters, options).solve();
}

}  // namespace lockstep
