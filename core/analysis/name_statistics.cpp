#include "core/analysis/name_statistics.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/trace/op_class.hpp"

namespace lockstep {

std::vector<NameStatistics> statistics_by_name(const Trace& trace, const std::vector<SimTime>& self,
                                               const std::function<bool(std::size_t)>& wanted) {
  std::map<std::pair<std::int32_t, std::int32_t>, StatisticsCollector> collectors;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    if (wanted && !wanted(i)) continue;
    const Span& s = trace.spans[i];
    const TraceOp& op = trace.roles[trace.role_of_rank[s.rank]].ops[s.op];
    collectors.try_emplace({op.name, op.kind}, SimTime::min(), SimTime::max())
        .first->second.add(s, self.empty() ? s.end - s.active : self[i]);
  }
  std::vector<NameStatistics> result;
  SimTime whole[2]{};  // self times of devices and of hosts
  for (auto& [key, collector] : collectors) {
    const bool host = op_class(trace.names[key.second]) == OpClass::Host;
    result.push_back({key.first, key.second, host, collector.finish(), 0});
    whole[host ? 1 : 0] += result.back().times.self;
  }
  for (NameStatistics& n : result) {
    const SimTime all = whole[n.host ? 1 : 0];
    if (all > SimTime{}) {
      n.share = static_cast<double>(n.times.self.count()) / static_cast<double>(all.count());
    }
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const NameStatistics& a, const NameStatistics& b) {
                     return std::tie(a.host, b.times.self) < std::tie(b.host, a.times.self);
                   });
  return result;
}

}  // namespace lockstep
