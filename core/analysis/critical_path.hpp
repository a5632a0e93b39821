// Critical path: the chain of ops that a step's length consists of, and how much the other ops
// could be late without making it longer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// Run: `span` computes, transfers or copies. Wait: before `span` nothing of the path runs:
/// overhead between ops, host work, or what the trace does not tell.
struct PathSegment {
  enum class Kind : std::uint8_t { Run, Wait };
  Kind kind = Kind::Run;
  SpanIndex span = -1;
  SimTime begin{}, end{};
  SimTime length() const { return end - begin; }
  bool operator==(const PathSegment&) const = default;
};

/// From the begin of the step to its end, without holes: lengths add up to the makespan. Told
/// backwards from the span that ends last: a collective ran because its last member had come, a
/// message because both ends were ready, any op because what it waited for on its rank had ended.
/// A transfer counts from when all its peers were there; a message that arrived counts as its
/// sender's until it left and as the receiver's after that. Linear in the spans. Empty without
/// spans.
std::vector<PathSegment> critical_path(const StepGraph& step);

/// Time on the path.
struct PathShare {
  SimTime time{};
  std::int64_t segments = 0;
  bool operator==(const PathShare&) const = default;
};
struct PathSummary {
  std::map<std::string, PathShare> by_kind;  // of TraceOp; "waiting" for Wait segments
  std::vector<PathShare> by_rank;            // every rank
  std::int64_t crossings = 0;                // how often the path goes from one rank to another
};
PathSummary summarize(const StepGraph& step, const std::vector<PathSegment>& path);

/// By span: how much later it may end with the makespan unchanged, if durations stay and no other
/// op is late. Waiting for peers counts as room; ranks that another one stands for are late with
/// it. At least 0. Linear in spans and dependencies. Empty without a program.
std::vector<SimTime> slack(const StepGraph& step);

}  // namespace lockstep
