#include "core/fit/least_squares.hpp"

#include <Eigen/Dense>
#include <cmath>
#include <random>

#include "tests/catch.hpp"

using namespace lockstep;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

MatrixXd random_matrix(Index rows, Index columns, std::mt19937& random) {
  std::normal_distribution<double> normal;
  return MatrixXd::NullaryExpr(rows, columns, [&] { return normal(random); });
}

/// a x - b
ResidualFunction linear(const MatrixXd& a, const VectorXd& b) {
  return [a, b](const VectorXd& x) -> Result<VectorXd> { return VectorXd(a * x - b); };
}

LeastSquaresFit solved(const ResidualFunction& residuals,
                       const std::vector<FitParameter>& parameters,
                       const LeastSquaresOptions& options = {}) {
  const auto fit = least_squares(residuals, parameters, options);
  REQUIRE(fit.ok());
  return *fit;
}

}  // namespace

TEST_CASE("a linear problem has the solution and the covariance that Eigen says", "[fit]") {
  std::mt19937 random(1);
  for (const Index columns : {1, 2, 5}) {
    const MatrixXd a = random_matrix(12, columns, random);
    const VectorXd b = random_matrix(12, 1, random);
    const LeastSquaresFit fit = solved(linear(a, b), std::vector<FitParameter>(columns));
    const VectorXd x = a.colPivHouseholderQr().solve(b);
    const double variance = (a * x - b).squaredNorm() / static_cast<double>(12 - columns);
    const MatrixXd covariance = variance * (a.transpose() * a).inverse();
    CHECK(fit.noise == Approx(std::sqrt(variance)));
    for (Index k = 0; k < columns; ++k) {
      const FittedParameter& p = fit.parameters[static_cast<std::size_t>(k)];
      CHECK(p.state == ParameterState::Fitted);
      CHECK(p.value == Approx(x[k]).margin(1e-6));
      CHECK(p.standard_error == Approx(std::sqrt(covariance(k, k))).epsilon(1e-6));
    }
  }
}

TEST_CASE("a parameter that wants beyond its bound stays there, and the others fit around it",
          "[fit]") {
  // (x - 3)² + (x + y - 4)² with x <= 2: y = 2.
  MatrixXd a(2, 2);
  a << 1, 0, 1, 1;
  const LeastSquaresFit fit = solved(linear(a, VectorXd{{3, 4}}), {{0, -10, 2}, {0, -10, 10}});
  CHECK(fit.parameters[0].value == 2);
  CHECK(fit.parameters[0].state == ParameterState::AtUpper);
  CHECK(fit.parameters[0].standard_error == 0);
  CHECK(fit.parameters[1].value == Approx(2));
  CHECK(fit.parameters[1].state == ParameterState::Fitted);
  // One that starts at a bound comes back where the residuals want it.
  const LeastSquaresFit back = solved(linear(a, VectorXd{{1, 4}}), {{2, -10, 2}, {0, -10, 10}});
  CHECK(back.parameters[0].value == Approx(1));
}

TEST_CASE("a curve is found from far away", "[fit]") {
  const auto residuals = [](const VectorXd& x) -> Result<VectorXd> {
    VectorXd r(8);
    for (Index t = 0; t < 8; ++t) {
      const auto time = static_cast<double>(t);
      r[t] = x[0] * std::exp(-x[1] * time) - 5 * std::exp(-0.3 * time);
    }
    return r;
  };
  const LeastSquaresFit fit = solved(residuals, {{1, 0, 100}, {2, 0, 10}});
  CHECK(fit.parameters[0].value == Approx(5).epsilon(1e-4));
  CHECK(fit.parameters[1].value == Approx(0.3).epsilon(1e-4));
}

TEST_CASE("standard errors are the spread of fits to data with other noise", "[fit]") {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.02);
  constexpr int kDraws = 400;
  VectorXd rate(kDraws), offset(kDraws), rate_error(kDraws), offset_error(kDraws);
  for (int draw = 0; draw < kDraws; ++draw) {
    VectorXd measured(15);
    for (Index i = 0; i < 15; ++i) {
      measured[i] = std::log(static_cast<double>(i + 1) / 4.0 + 0.5) + noise(random);
    }
    // log(work / exp(rate) + offset): a rate as its logarithm, and a time beside it
    const auto residuals = [&](const VectorXd& x) -> Result<VectorXd> {
      VectorXd r(15);
      for (Index i = 0; i < 15; ++i) {
        r[i] = std::log(static_cast<double>(i + 1) / std::exp(x[0]) + x[1]) - measured[i];
      }
      return r;
    };
    const LeastSquaresFit fit = solved(residuals, {{1, -5, 5}, {0.1, 0, 10}});
    rate[draw] = fit.parameters[0].value;
    offset[draw] = fit.parameters[1].value;
    rate_error[draw] = fit.parameters[0].standard_error;
    offset_error[draw] = fit.parameters[1].standard_error;
  }
  const auto spread = [](const VectorXd& v) {
    return std::sqrt((v.array() - v.mean()).square().sum() / static_cast<double>(v.size() - 1));
  };
  CHECK(rate.mean() == Approx(std::log(4)).epsilon(0.01));
  CHECK(rate_error.mean() == Approx(spread(rate)).epsilon(0.12));
  CHECK(offset_error.mean() == Approx(spread(offset)).epsilon(0.12));
}

TEST_CASE("standard errors are the spread where some residuals count linearly, too", "[fit]") {
  std::mt19937 random(17);
  std::student_t_distribution<double> noise(3);  // with heavy tails
  constexpr int kDraws = 400, kRows = 40;
  const MatrixXd a = MatrixXd::Ones(kRows, 1);
  double sum = 0, squares = 0, errors = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const VectorXd b = VectorXd::NullaryExpr(kRows, [&] { return noise(random); });
    const FittedParameter p = solved(linear(a, b), {{0}}, {.outlier = 1}).parameters[0];
    sum += p.value;
    squares += p.value * p.value;
    errors += p.standard_error;
  }
  const double mean = sum / kDraws;
  CHECK(mean == Approx(0).margin(0.05));
  CHECK(errors / kDraws == Approx(std::sqrt(squares / kDraws - mean * mean)).epsilon(0.12));
}

TEST_CASE("what the data cannot tell keeps its start, and it is said why", "[fit]") {
  MatrixXd a = MatrixXd::Zero(6, 3);
  for (Index i = 0; i < 6; ++i) {
    const auto x = static_cast<double>(i + 1);
    a(i, 0) = x;
    a(i, 1) = 2 * x;  // the same direction
  }
  const VectorXd b = a.col(0) * 3;
  const LeastSquaresOptions options{.least_noise = 1e-3, .largest_effect = 0.25};
  const LeastSquaresFit fit =
      solved(linear(a, b), {{1, 0, 9, 1e-3, 0.5}, {0.5, 0, 9, 1e-3, 0.5}, {7, 0, 9}}, options);
  CHECK(fit.parameters[2].state == ParameterState::NoEffect);
  CHECK(fit.parameters[2].value == 7);
  const bool first = fit.parameters[0].state == ParameterState::Undetermined;
  const FittedParameter& kept = fit.parameters[first ? 0 : 1];
  const FittedParameter& fitted = fit.parameters[first ? 1 : 0];
  CHECK(kept.state == ParameterState::Undetermined);
  CHECK(kept.value == (first ? 1 : 0.5));
  CHECK(kept.confused_with == (first ? 1 : 0));
  CHECK(fitted.state == ParameterState::Fitted);
  CHECK(fit.parameters[0].value + 2 * fit.parameters[1].value == Approx(3));
}

TEST_CASE("an outlier decides squares, but not what counts it linearly", "[fit]") {
  const MatrixXd a = MatrixXd::Ones(9, 1);
  VectorXd b = VectorXd::Constant(9, 1.0);
  b[4] = 10;
  CHECK(solved(linear(a, b), {{0}}).parameters[0].value == Approx(2));  // the mean
  // 8 (x - 1) = 0.1, where the tenth of the outlier pulls
  CHECK(solved(linear(a, b), {{0}}, {.outlier = 0.1}).parameters[0].value ==
        Approx(1 + 0.1 / 8).epsilon(1e-5));
}

TEST_CASE("a fault of the residuals is the fault of the fit", "[fit]") {
  const auto residuals = [](const VectorXd&) -> Result<VectorXd> { return invalid("no time"); };
  const auto fit = least_squares(residuals, {{0}});
  REQUIRE(!fit.ok());
  CHECK(fit.error().message == "no time");
}
