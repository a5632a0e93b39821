#include "core/analysis/self_time.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "core/base/index_vector.hpp"
#include "core/trace/op_class.hpp"

namespace lockstep {
namespace {

/// For each stream, a number that all lanes of its thread share: a reader of traces puts calls that
/// nest onto lanes "host python", "host python (2)", ….
std::vector<int> threads_of_streams(const Trace& trace) {
  std::map<std::string, int> threads;
  std::vector<int> result;
  for (const std::string& stream : trace.streams) {
    std::string name = stream;
    const std::size_t open = name.rfind(" (");
    const bool lane = open != std::string::npos && name.ends_with(')') &&
                      name.find_first_not_of("0123456789", open + 2) == name.size() - 1;
    if (lane) name.resize(open);
    result.push_back(threads.try_emplace(name, static_cast<int>(threads.size())).first->second);
  }
  return result;
}

}  // namespace

std::vector<SimTime> self_times(const Trace& trace) {
  IndexVector<std::int32_t, bool> nests;  // by name of a kind
  for (const std::string& name : trace.names) nests.push_back(op_class(name) == OpClass::Host);
  if (std::find(nests.begin(), nests.end(), true) == nests.end()) return {};
  const std::vector<int> thread_of = threads_of_streams(trace);
  struct Call {
    Rank rank;
    int thread;
    SimTime begin, end;
    std::size_t span;
  };
  std::vector<Call> calls;
  std::vector<SimTime> self;
  self.reserve(trace.spans.size());
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& s = trace.spans[i];
    self.push_back(s.end - s.active);
    const TraceOp& op = trace.roles[trace.role_of_rank[s.rank]].ops[s.op];
    if (nests[op.kind]) calls.push_back({s.rank, thread_of[op.stream], s.begin, s.end, i});
  }
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) {
    return std::tie(a.rank, a.thread, a.begin, b.end, a.span) <
           std::tie(b.rank, b.thread, b.begin, a.end, b.span);
  });
  std::vector<const Call*> open;  // the innermost last
  for (const Call& call : calls) {
    const auto is_over = [&](const Call& c) {
      return c.rank != call.rank || c.thread != call.thread || c.end <= call.begin;
    };
    while (!open.empty() && is_over(*open.back())) open.pop_back();
    if (!open.empty()) {
      self[open.back()->span] -= std::min(call.end, open.back()->end) - call.begin;
    }
    open.push_back(&call);
  }
  return self;
}

}  // namespace lockstep
