#include "cli/names_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/analysis/name_statistics.hpp"
#include "core/analysis/self_time.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"

namespace lockstep {
namespace {

constexpr int kFigures = 88;  // columns of the table beside the name
constexpr int kLeastName = 32;

std::vector<NameStatistics> first_names(const Trace& trace, int most) {
  std::vector<NameStatistics> names = statistics_by_name(trace, self_times(trace));
  names.resize(std::min(names.size(), static_cast<std::size_t>(most)));
  return names;
}

/// Templates begin alike and differ at both ends, so it is the middle that goes.
std::string shortened(const std::string& name, std::size_t room) {
  if (name.size() <= room) return name;
  const std::size_t kept = room - 1, head = kept / 2;
  return name.substr(0, head) + "~" + name.substr(name.size() - (kept - head));
}

}  // namespace

std::string names_text(const Trace& trace, int most, const Screen& screen) {
  const std::size_t room =
      screen.width <= 0 ? std::string::npos
                        : static_cast<std::size_t>(std::max(screen.width - kFigures, kLeastName));
  TextTable table({"name",
                   {"of", 7},
                   {"count", 6},
                   {"total", 4},
                   "self",
                   "share",
                   {"average", 5},
                   {"median", 1},
                   {"90 %", 2},
                   {"99 %", 3}},
                  2);
  for (const NameStatistics& n : first_names(trace, most)) {
    const auto time = [](SimTime t) { return time_text(to_seconds(t)); };
    table.add({shortened(trace.names[n.name], room), n.host ? "host" : trace.names[n.kind],
               std::to_string(n.times.count), time(n.times.total), time(n.times.self),
               percent_text(n.share), time_text(n.times.mean()), time(n.times.p50),
               time(n.times.p90), time(n.times.p99)});
  }
  return table.text(screen);
}

nlohmann::ordered_json names_json(const Trace& trace, int most) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto seconds = [](SimTime t) { return to_seconds(t).v; };
  for (const NameStatistics& n : first_names(trace, most)) {
    list.push_back({{"name", trace.names[n.name]},
                    {"kind", trace.names[n.kind]},
                    {"host", n.host},
                    {"count", n.times.count},
                    {"total_s", seconds(n.times.total)},
                    {"self_s", seconds(n.times.self)},
                    {"share", n.share},
                    {"average_s", n.times.mean().v},
                    {"median_s", seconds(n.times.p50)},
                    {"p90_s", seconds(n.times.p90)},
                    {"p99_s", seconds(n.times.p99)}});
  }
  return list;
}

}  // namespace lockstep
