#include "gui/model/timeline/time_axis.hpp"

#include <cstdio>
#include <cstdlib>

namespace lockstep::gui {

std::string tick_text(SimTime t, SimTime step) {
  struct Unit {
    std::int64_t ticks;
    const char* name;
    int digits;  // ticks = 10^digits
  };
  static constexpr Unit kUnits[] = {{1'000'000'000'000, "s", 12},
                                    {1'000'000'000, "ms", 9},
                                    {1'000'000, "us", 6},
                                    {1'000, "ns", 3},
                                    {1, "ps", 0}};
  if (t == SimTime{}) return "0";
  const Unit* unit = kUnits;
  while (unit->ticks > 1 && std::llabs(t.count()) < unit->ticks) ++unit;
  int decimals = unit->digits;
  for (std::int64_t left = step.count(); left >= 10 && decimals > 0; left /= 10) --decimals;
  char text[48];
  std::snprintf(text, sizeof text, "%.*f %s", decimals,
                static_cast<double>(t.count()) / static_cast<double>(unit->ticks), unit->name);
  return text;
}

}  // namespace lockstep::gui
