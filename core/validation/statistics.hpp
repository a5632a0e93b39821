// Statistics of errors: percentiles, and whether an order was predicted.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// The p-th part (0 to 1) of the values, linear between the two nearest of the sorted ones: the
/// i-th of n, from 0, stands at i / (n - 1). Requires a value.
double percentile(std::vector<double> values, double p);

/// Of relative errors, simulated / measured - 1. Requires none for count 0, which leaves all 0.
struct ErrorFigures {
  std::size_t count = 0;
  double median = 0, percentile90 = 0;  // of |error|
  double bias = 0;                      // median of the errors with their sign
  double within_10 = 0;                 // part of them with |error| <= 0.1
};
ErrorFigures figures_of(const std::vector<double>& errors);

struct RankedRun {
  double measured = 0, predicted = 0;
  std::string layout;  // runs of the same one are repetitions
};

/// Pairs of runs whose order was predicted (concordant), or the opposite (discordant). Kendall's
/// tau is (concordant - discordant) / pairs. A pair with equal measurements or the same layout says
/// nothing and is not counted; one with equal predictions counts as a pair and as neither.
struct RankAgreement {
  std::size_t concordant = 0, discordant = 0, pairs = 0;
  double tau() const;  // requires pairs
  RankAgreement& operator+=(const RankAgreement& other);
};
RankAgreement rank_agreement(const std::vector<RankedRun>& runs);

}  // namespace lockstep
