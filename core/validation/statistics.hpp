// Statistics: percentiles of errors, and whether the order of runs was predicted.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// The value below which the fraction p (0 to 1) of the values lies. It is linear between
/// neighbours of the sorted values, of which the i-th of n, from 0, is at i / (n - 1). Requires at
/// least one value.
double percentile(std::vector<double> values, double p);

/// Figures of relative errors, simulated / measured - 1. Without errors all figures are 0.
struct ErrorFigures {
  std::size_t count = 0;
  double median = 0, percentile90 = 0;  // of |error|
  double bias = 0;                      // median of the errors with their sign
  double within_10 = 0;                 // the fraction with |error| <= 0.1
};
ErrorFigures figures_of(const std::vector<double>& errors);

struct RankedRun {
  double measured = 0, predicted = 0;
  std::string layout;  // runs with the same layout are repetitions
};

/// Counts pairs of runs whose order was predicted (concordant), or whose opposite order was
/// (discordant). Kendall's tau is (concordant - discordant) / pairs. A pair whose measurements are
/// within 1 % of each other, as those of one layout may be, or with the same layout says nothing
/// and is not counted. One with equal predictions counts as a pair, but as neither of the two.
struct RankAgreement {
  std::size_t concordant = 0, discordant = 0, pairs = 0;
  double tau() const;  // requires pairs
  RankAgreement& operator+=(const RankAgreement& other);
};
RankAgreement rank_agreement(const std::vector<RankedRun>& runs);

/// What taking the layout that is predicted to be fastest loses. Of repetitions of a layout the one
/// that was measured fastest counts.
struct FirstChoice {
  std::size_t chosen = 0, best = 0;  // the runs predicted and measured to be fastest
  double loss = 0;                   // the measured time of the one over that of the other, - 1
};
FirstChoice first_choice(const std::vector<RankedRun>& runs);  // requires runs

}  // namespace lockstep
