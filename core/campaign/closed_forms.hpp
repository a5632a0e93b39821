// Closed forms: what theory says of the interval between checkpoints, of goodput, and of spares.
// Failures have no memory (they are exponential), and recovering takes the same time each time. The
// simulation is tested against these.
#pragma once

#include "core/base/units.hpp"

namespace lockstep {

/// Young 1974, "A first order approximation to the optimum checkpoint interval": the useful time
/// between checkpoints that loses least, sqrt(2 δ M), with δ the time that training stands still
/// for one and M the mean time between failures. Requires M > 0.
Seconds young_interval(Seconds save, Seconds mean_time);

/// Daly 2006, "A higher order estimate of the optimum checkpoint interval for restart dumps":
/// sqrt(2 δ M) (1 + sqrt(δ / 2M) / 3 + (δ / 2M) / 9) - δ for δ < 2 M, else M.
Seconds daly_interval(Seconds save, Seconds mean_time);

struct RenewalQuestion {
  Seconds interval;   // useful time between checkpoints
  Seconds pause;      // that training stands still for one
  Seconds late;       // how much later than that a checkpoint counts: it is written in background
  Seconds recovery;   // from a failure until training goes on; a failure in it begins it again
  Seconds mean_time;  // between failures; 0: there are none
};
/// The part of the time that is useful and kept, by renewal theory. A cycle goes from one recovery
/// to the next: it has e^(-late/M) / (e^(L/M) - 1) checkpoints, L = interval + pause, and takes
/// M e^(recovery/M). Without `late` it is the time of Daly 2006, turned round.
double renewal_goodput(const RenewalQuestion& question);

/// How many spare nodes are too few for one moment in a hundred at most: nodes under repair are
/// Poisson with mean failures × repair, whatever the distribution of repairs (Palm's theorem).
int spares_needed(double node_failures_per_second, Seconds repair, double short_of = 0.01);

}  // namespace lockstep
