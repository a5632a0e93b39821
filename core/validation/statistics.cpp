#include "core/validation/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

/// Runs of one layout differ by this much: BLOOM's two rows by 1.1 %.
constexpr double kRepetition = 0.01;

}  // namespace

double percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  const double at = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

ErrorFigures figures_of(const std::vector<double>& errors) {
  ErrorFigures figures;
  figures.count = errors.size();
  if (errors.empty()) return figures;
  std::vector<double> sizes;
  std::size_t within = 0;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    within += std::abs(error) <= 0.1 ? 1 : 0;
  }
  figures.median = percentile(sizes, 0.5);
  figures.percentile90 = percentile(sizes, 0.9);
  figures.bias = percentile(errors, 0.5);
  figures.within_10 = static_cast<double>(within) / static_cast<double>(errors.size());
  return figures;
}

double RankAgreement::tau() const {
  return (static_cast<double>(concordant) - static_cast<double>(discordant)) /
         static_cast<double>(pairs);
}

RankAgreement& RankAgreement::operator+=(const RankAgreement& other) {
  concordant += other.concordant;
  discordant += other.discordant;
  pairs += other.pairs;
  return *this;
}

RankAgreement rank_agreement(const std::vector<RankedRun>& runs) {
  RankAgreement result;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = i + 1; j < runs.size(); ++j) {
      const double m = runs[i].measured - runs[j].measured;
      const double p = runs[i].predicted - runs[j].predicted;
      const double less = std::min(runs[i].measured, runs[j].measured);
      if (std::abs(m) <= kRepetition * less || runs[i].layout == runs[j].layout) continue;
      ++result.pairs;
      if (m * p > 0) ++result.concordant;
      if (m * p < 0) ++result.discordant;
    }
  }
  return result;
}

FirstChoice first_choice(const std::vector<RankedRun>& runs) {
  FirstChoice found;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].predicted < runs[found.chosen].predicted) found.chosen = i;
    if (runs[i].measured < runs[found.best].measured) found.best = i;
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RankedRun& chosen = runs[found.chosen];
    const bool again = runs[i].layout == chosen.layout && runs[i].predicted == chosen.predicted;
    if (again && runs[i].measured < chosen.measured) found.chosen = i;
  }
  found.loss = runs[found.chosen].measured / runs[found.best].measured - 1;
  return found;
}

}  // namespace lockstep
