// StepAnalysis: what the analyses found out about one traced step, for who shows all of it.
#pragma once

#include <cstddef>
#include <vector>

#include "core/analysis/bubbles.hpp"
#include "core/analysis/critical_path.hpp"
#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// Holds pointers to the trace and the program of its graph, which must outlive it.
struct StepAnalysis {
  /// An index into Trace::spans. It must not be confused with a SpanIndex, which counts within the
  /// step.
  using SpanId = std::size_t;

  SpanId first_span = 0;  // the step's first span
  StepGraph graph;
  Bubbles bubbles;                // with their list
  std::vector<PathSegment> path;  // the critical path
  SpanId id(SpanIndex i) const { return first_span + static_cast<SpanId>(i); }
  SpanIndex index(SpanId id) const { return static_cast<SpanIndex>(id - first_span); }
};

}  // namespace lockstep
