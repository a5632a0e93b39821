#include "gui/model/run/links.hpp"

#include <algorithm>

#include "core/base/index_vector.hpp"

namespace lockstep::gui {
namespace {

void add_dependencies(std::vector<Link>& links, const RunView& run, const StepAnalysis& step,
                      SpanIndex span) {
  const StepGraph& graph = step.graph;
  const Span& s = graph[span];
  const Role& role = run.program->role_of(s.rank);
  const auto add = [&](OpId from, OpId to) {
    const SpanIndex a = graph.find(s.rank, from), b = graph.find(s.rank, to);
    if (a >= 0 && b >= 0) links.push_back({Link::Kind::Dependency, step.id(a), step.id(b)});
  };
  for (const OpId before : role.after_of(role.op(s.op))) add(before, s.op);
  for (std::size_t i = to_size(s.op) + 1; i < role.ops.size(); ++i) {
    const auto after = role.after_of(role.ops[i]);
    if (std::find(after.begin(), after.end(), s.op) != after.end()) {
      add(s.op, OpId{static_cast<std::int32_t>(i)});
    }
  }
}

}  // namespace

std::vector<Link> links_of(const RunView& run, SpanId span) {
  std::vector<Link> links;
  const StepAnalysis* step = run.step_of(span);
  if (!step) return links;
  const SpanIndex index = step->index(span);
  const StepGraph& graph = step->graph;
  const SpanIndex other = graph.other_end(index);
  for (const SpanIndex member : graph.meeting(index)) {
    if (member == index) continue;
    const bool to_other = member == other && !graph.is_receive(index);
    const SpanId a = to_other ? span : step->id(member), b = to_other ? step->id(member) : span;
    links.push_back({other >= 0 ? Link::Kind::Message : Link::Kind::Collective, a, b});
  }
  if (run.program) add_dependencies(links, run, *step, index);
  if (links.size() > kMaxLinks) links.resize(kMaxLinks);
  return links;
}

}  // namespace lockstep::gui
