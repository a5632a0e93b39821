// Initial values of parameters. They depend on seed, name and element index only, never on rank or
// layout, so that every layout begins with the same model.
#pragma once

#include <cstdint>

#include "core/ir/program.hpp"

namespace lockstep {

/// Inverse of the standard normal distribution function for 0 < p < 1, relative error about 1e-16:
/// algorithm AS 241, PPND16 (Wichura, Applied Statistics 37, 1988).
double normal_quantile(double p);

/// The values of one parameter before the first step. Element i of a Normal parameter is
/// init_scale × the normal quantile of the i-th number of a counter-based generator that is keyed
/// by the seed and the parameter's name.
class InitialValues {
 public:
  InitialValues(const Parameter& parameter, std::uint64_t seed);
  double operator[](std::int64_t index) const;

 private:
  InitKind init_;
  double scale_;
  std::uint64_t key_;
};

}  // namespace lockstep
