#include "cli/causes_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/format/format.hpp"
#include "core/format/table.hpp"

namespace lockstep {
namespace {

constexpr double kWorthTelling = 0.001;     // of the step; less is noise
constexpr std::size_t kMostStragglers = 5;  // rows of the table

using Parts = std::vector<std::pair<std::string, Seconds>>;

/// "backward 60.1 %, forward 30 %": the parts by size, without those that are not worth telling.
std::string shares_text(Parts parts, Seconds whole) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, time] : parts) {
    if (time.v < kWorthTelling * whole.v) break;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, percent_text(time.v / whole.v));
  }
  return text;
}

std::string bubble_table(const Report& r, const Screen& screen) {
  TextTable table({"idle, mean over ranks", "time", "of the step"});
  Seconds total;
  for (const BubbleCause cause : TimeByCause::ids()) {
    const Seconds time = r.causes.bubbles[cause];
    total += time;
    if (time.v < kWorthTelling * r.step_time.v) continue;
    table.add(
        {std::string(to_string(cause)), time_text(time), percent_text(time.v / r.step_time.v)});
  }
  table.add({"all", time_text(total), percent_text(total.v / r.step_time.v)});
  return table.text(screen);
}

/// Lines about the step: which transfers are exposed, and what its critical path consists of.
std::string shares_lines(const Report& r, const Screen& screen) {
  const auto& path = r.causes.critical_path;
  const auto& exposed = r.causes.exposed_comm;
  const std::string kinds = shares_text({exposed.begin(), exposed.end()}, r.step_time);
  const double crossings = r.causes.critical_path_crossings;
  TextTable table({"", ""}, 2);
  if (!kinds.empty()) table.add({"exposed", kinds});
  table.add(
      {"critical path",
       shares_text({path.begin(), path.end()}, r.step_time) +
           (crossings > 0 ? fmt::format("; {:.4g} times from rank to rank", crossings) : "")});
  return table.text(screen);
}

/// A table of the ranks for which others waited longest; empty if nobody waited long.
std::string straggler_table(const Report& r, const Screen& screen) {
  std::vector<std::size_t> order(r.causes.ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return r.causes.ranks[a].caused_wait > r.causes.ranks[b].caused_wait;
  });
  if (order.size() > kMostStragglers) order.resize(kMostStragglers);
  TextTable table({"straggler", "came last", "others waited", "itself waited"});
  bool any = false;
  for (const std::size_t rank : order) {
    const RankCauses& c = r.causes.ranks[rank];
    if (c.caused_wait.v < kWorthTelling * r.step_time.v) break;
    any = true;
    table.add({fmt::format("rank {}", number_in_job(r, rank)),
               fmt::format("{:.4g}", c.last_arrivals), time_text(c.caused_wait),
               time_text(c.own_wait)});
  }
  return any ? table.text(screen) : "";
}

}  // namespace

std::string causes_text(const Report& report, const Screen& screen) {
  if (report.causes.ranks.empty() || report.causes.critical_path.empty()) return "";
  if (!(report.step_time.v > 0)) return "";
  const std::string stragglers = straggler_table(report, screen);
  return bubble_table(report, screen) + "\n" + shares_lines(report, screen) +
         (stragglers.empty() ? "" : "\n" + stragglers);
}

}  // namespace lockstep
