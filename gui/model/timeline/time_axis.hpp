// TimeAxis: says which time lies under which pixel. It is a plain value, tested without a window.
#pragma once

#include <algorithm>
#include <string>

#include "core/base/units.hpp"

namespace lockstep::gui {

/// Shows [begin, end) on `width` pixels. Requires begin < end and width > 0.
struct TimeAxis {
  SimTime begin{0}, end{1};
  double width = 1;

  bool operator==(const TimeAxis&) const = default;
  SimTime length() const { return end - begin; }
  double pixels_per_tick() const { return width / static_cast<double>(length().count()); }
  double x_of(SimTime t) const {
    return static_cast<double>((t - begin).count()) * pixels_per_tick();
  }
  /// The time at x. x_of(time_at(x)) is within half a pixel of x if a pixel is at least a
  /// picosecond.
  SimTime time_at(double x) const {
    return begin + SimTime{static_cast<std::int64_t>(x / pixels_per_tick())};
  }
  SimTime span_of(double pixels) const {
    return SimTime{static_cast<std::int64_t>(pixels / pixels_per_tick())};
  }

  /// The axis scaled by `factor` (below 1 zooms in), so that what is under `x` stays there. At
  /// least `kShortest` and at most four times `whole` stays visible.
  TimeAxis zoomed(double factor, double x, SimTime whole) const {
    const double old_length = static_cast<double>(length().count());
    const double longest =
        std::max(4.0 * static_cast<double>(whole.count()), static_cast<double>(kShortest.count()));
    const double new_length =
        std::clamp(old_length * factor, static_cast<double>(kShortest.count()), longest);
    const double left = x / width;
    TimeAxis result = *this;
    result.begin = begin + SimTime{static_cast<std::int64_t>(left * (old_length - new_length))};
    result.end = result.begin + SimTime{static_cast<std::int64_t>(new_length)};
    return result;
  }
  TimeAxis panned(double pixels) const {
    const SimTime by = span_of(pixels);
    return {begin + by, end + by, width};
  }
  /// An axis that shows all of [from, to], with a margin of two percent on each side.
  static TimeAxis fitting(SimTime from, SimTime to, double width) {
    const SimTime length = std::max(to - from, kShortest);
    const SimTime margin{length.count() / 50};
    return {from - margin, from + length + margin, width};
  }
  static constexpr SimTime kShortest{1000};  // a nanosecond
};

/// The text of a tick, such as "12.5 ms", with enough decimals that ticks `step` apart differ.
std::string tick_text(SimTime t, SimTime step);

/// The step between the ticks of a ruler: 1, 2 or 5 times a power of ten, and at least `at_least`.
inline SimTime nice_step(SimTime at_least) {
  std::int64_t step = 1;
  for (;;) {
    for (const std::int64_t factor : {1, 2, 5}) {
      if (step * factor >= at_least.count()) return SimTime{step * factor};
    }
    step *= 10;
  }
}

}  // namespace lockstep::gui
