#include "core/campaign/closed_forms.hpp"

#include <cmath>

namespace lockstep {

Seconds young_interval(Seconds save, Seconds mean_time) {
  return {std::sqrt(2 * save.v * mean_time.v)};
}

Seconds daly_interval(Seconds save, Seconds mean_time) {
  const double part = save.v / (2 * mean_time.v);
  if (part >= 1) return mean_time;
  return {young_interval(save, mean_time).v * (1 + std::sqrt(part) / 3 + part / 9) - save.v};
}

double renewal_goodput(const RenewalQuestion& q) {
  const double length = q.interval.v + q.pause.v, mean = q.mean_time.v;
  if (mean <= 0) return q.interval.v / length;
  const double checkpoints = std::exp(-q.late.v / mean) / std::expm1(length / mean);
  return q.interval.v * checkpoints / (mean * std::exp(q.recovery.v / mean));
}

int spares_needed(double node_failures_per_second, Seconds repair, double short_of) {
  const double mean = node_failures_per_second * repair.v;
  // Of a mean above this the normal distribution is as near, and e^-mean may be 0.
  constexpr double kLarge = 500, kOneInHundred = 2.326;
  if (mean > kLarge) return static_cast<int>(std::ceil(mean + kOneInHundred * std::sqrt(mean)));
  double term = std::exp(-mean), at_most = term;
  int spares = 0;
  while (1 - at_most > short_of) {
    ++spares;
    term *= mean / spares;
    at_most += term;
  }
  return spares;
}

}  // namespace lockstep
