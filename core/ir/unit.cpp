#include "core/ir/unit.hpp"

#include <limits>

#include "core/base/units.hpp"

namespace lockstep {

std::int64_t Parameter::elements() const {
  std::int64_t result = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(result, extent, &result)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return result;
}

std::int64_t held_elements(const Parameter& parameter, int parts, SectionRange sections) {
  Parameter held = parameter;
  const int first = parts == 1 ? 1 : parameter.first_parts;
  if (first > 1) held.shape[0] = ceil_div(held.shape[0], std::int64_t{first});
  if (parameter.split_dim < 0 || (parts == 1 && sections.all())) return held.elements();
  parts /= first;
  std::int64_t& extent = held.shape[parameter.split_dim];
  extent = 0;
  for (std::size_t s = 0; s < parameter.sections.size(); ++s) {
    const std::int64_t section = sections.holds(s) ? parameter.sections[s] : 0;
    extent += section / parts + (section % parts != 0 ? 1 : 0);
  }
  return held.elements();
}

std::string factors_of(const std::string& unit) { return unit + ".factors"; }

MatrixShape matrix_shape(const Parameter& parameter) {
  const std::int64_t rows = parameter.shape.empty() ? 1 : parameter.shape[0];
  return {rows, rows == 0 ? 0 : parameter.elements() / rows};
}

}  // namespace lockstep
