// Critical path: the chain of ops that determines the length of a step, and by how much each other
// op could be late without making the step longer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/analysis/step_graph.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {

/// Run: `span` computes, transfers or copies. Wait: the path waits before `span`, because of
/// overhead between ops, host work, a data loader, or something that the trace does not show.
struct PathSegment {
  enum class Kind : std::uint8_t { Run, Wait };
  Kind kind = Kind::Run;
  SpanIndex span = -1;
  SimTime begin{}, end{};
  SimTime length() const { return end - begin; }
  bool operator==(const PathSegment&) const = default;
};

/// The path from the begin of the step to its end. It has no holes, so that the lengths of its
/// segments add up to the makespan. It is found backwards from the span that ends last: a
/// collective ran because its last member had come, a message because both ends were ready, any
/// other op because what it waited for on its rank had ended. A transfer counts from the time when
/// all its peers were there; a message counts for its sender until it has left, and for its
/// receiver after that. Takes time linear in the spans. Without spans, the path is empty.
std::vector<PathSegment> critical_path(const StepGraph& step);

/// How much of the path one kind of op, or one rank, has.
struct PathShare {
  SimTime time{};
  std::int64_t segments = 0;
  bool operator==(const PathShare&) const = default;
};
struct PathSummary {
  std::map<std::string, PathShare> by_kind;  // by TraceOp::kind; "waiting" for Wait segments
  IndexVector<Rank, PathShare> by_rank;      // by rank
  std::int64_t crossings = 0;                // how often the path goes from one rank to another
};
PathSummary summarize(const StepGraph& step, const std::vector<PathSegment>& path);

/// For each span, how much later it may end without changing the makespan, if durations stay and no
/// other op is late; at least 0. The time that a span waits for its peers counts as slack, and
/// ranks that another one stands for are late together with it. Takes time linear in spans and
/// dependencies. Empty without a program.
std::vector<SimTime> slack(const StepGraph& step);

}  // namespace lockstep
