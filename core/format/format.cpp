#include "core/format/format.hpp"

#include <fmt/format.h>

#include <cmath>

namespace lockstep {
namespace {

struct Unit {
  double size;
  const char* name;
};

template <std::size_t N>
std::string scaled(double value, const Unit (&units)[N]) {  // largest first
  const Unit* unit = units;
  while (unit + 1 < units + N && std::fabs(value) < unit->size) ++unit;
  return fmt::format("{:.4g} {}", value / unit->size, unit->name);
}

}  // namespace

std::string time_text(Seconds time) {
  static constexpr Unit kUnits[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  if (time.v == 0) return "0 s";
  return scaled(time.v, kUnits);
}

std::string bytes_text(Bytes bytes) {
  static constexpr Unit kUnits[] = {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}};
  return scaled(static_cast<double>(bytes.v), kUnits);
}

namespace {

/// Says a unit that both texts end with once.
std::string likely_between(const std::string& from, const std::string& to) {
  const std::string unit = to.substr(to.find(' '));
  return (from.ends_with(unit) ? from.substr(0, from.size() - unit.size()) : from) + " to " + to +
         " in 8 of 10 runs";
}

}  // namespace

std::string likely_text(Seconds simulated, double least, double most) {
  return likely_between(time_text(least * simulated), time_text(most * simulated));
}
std::string likely_text(Bytes simulated, double least, double most) {
  const auto scaled_by = [&](double factor) {
    return bytes_text(Bytes{static_cast<std::int64_t>(factor * static_cast<double>(simulated.v))});
  };
  return likely_between(scaled_by(least), scaled_by(most));
}

std::string count_text(double count) {
  std::string digits = fmt::format("{:.0f}", std::fabs(count));
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return (count <= -0.5 ? "-" : "") + digits;
}

std::string flops_text(Flops flops) {
  static constexpr Unit kUnits[] = {{1e18, "EFLOP"}, {1e15, "PFLOP"}, {1e12, "TFLOP"},
                                    {1e9, "GFLOP"},  {1e6, "MFLOP"},  {1e3, "kFLOP"},
                                    {1, "FLOP"}};
  return scaled(flops.v, kUnits);
}

std::string percent_text(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string change_text(double a, double b) {
  if (a == 0 || !std::isfinite(b / a)) return "-";
  return fmt::format("{:+.1f} %", 100 * (b / a - 1));
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (&word != &words.front()) text += separator;
    text += word;
  }
  return text;
}

}  // namespace lockstep
