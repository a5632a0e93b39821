// Units of scenario files: the only place where a written number becomes a quantity in SI units.
#pragma once

#include <cmath>
#include <limits>

namespace lockstep {

enum class Unit {
  One,    // plain number
  Giga,   // GB, GB/s: 10^9
  Tera,   // TFLOP/s: 10^12
  Mebi,   // MiB: 2^20
  Micro,  // microseconds
};

inline double to_si(Unit unit, double written) {
  switch (unit) {
    case Unit::One:
      return written;
    case Unit::Giga:
      return written * 1e9;
    case Unit::Tera:
      return written * 1e12;
    case Unit::Mebi:
      return written * double{1 << 20};
    case Unit::Micro:
      return written / 1e6;  // a division is correctly rounded: 1.5 gives 1.5e-6
  }
  return written;
}

/// The number whose to_si is `si`, exactly if any double is (so of every value that was read from
/// a file); else the nearest.
inline double from_si(Unit unit, double si) {
  const double near = unit == Unit::Micro ? si * 1e6 : si / to_si(unit, 1.0);
  double down = near, up = near;
  for (int i = 0; i < 4; ++i) {  // two roundings of half an ulp each, in binades that differ by one
    if (to_si(unit, down) == si) return down;
    if (to_si(unit, up) == si) return up;
    down = std::nextafter(down, -std::numeric_limits<double>::infinity());
    up = std::nextafter(up, std::numeric_limits<double>::infinity());
  }
  return near;
}

}  // namespace lockstep
