// Units of scenario files. This is the only place where a written number becomes a quantity in SI
// units.
#pragma once

#include <cmath>
#include <limits>

namespace lockstep {

/// The prefix of the unit in which a number is written.
enum class UnitPrefix {
  One,    // plain number
  Giga,   // GB, GB/s: 10^9
  Tera,   // TFLOP/s: 10^12
  Mebi,   // MiB: 2^20
  Milli,  // milliseconds
  Micro,  // microseconds
  Hours,
};

inline double to_si(UnitPrefix prefix, double written) {
  switch (prefix) {
    case UnitPrefix::One:
      return written;
    case UnitPrefix::Giga:
      return written * 1e9;
    case UnitPrefix::Tera:
      return written * 1e12;
    case UnitPrefix::Mebi:
      return written * double{1 << 20};
    case UnitPrefix::Milli:
      return written / 1e3;
    case UnitPrefix::Micro:
      return written / 1e6;  // a division is correctly rounded: 1.5 gives 1.5e-6
    case UnitPrefix::Hours:
      return written * 3600;
  }
  return written;
}

/// The number to write for `si`: if there is a double whose to_si is exactly `si`, as there is for
/// every value that was read from a file, that double; else the nearest.
inline double from_si(UnitPrefix prefix, double si) {
  const double near = prefix == UnitPrefix::Micro   ? si * 1e6
                      : prefix == UnitPrefix::Milli ? si * 1e3
                                                    : si / to_si(prefix, 1.0);
  double down = near, up = near;
  for (int i = 0; i < 4; ++i) {  // two roundings of half an ulp each, in binades that differ by one
    if (to_si(prefix, down) == si) return down;
    if (to_si(prefix, up) == si) return up;
    down = std::nextafter(down, -std::numeric_limits<double>::infinity());
    up = std::nextafter(up, std::numeric_limits<double>::infinity());
  }
  return near;
}

}  // namespace lockstep
