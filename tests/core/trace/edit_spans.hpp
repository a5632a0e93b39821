// Changes the spans of a trace, which itself only takes more of them.
#pragma once

#include <utility>
#include <vector>

#include "core/trace/trace.hpp"

namespace lockstep::test {

/// Calls change(spans) with a list of the trace's spans, and gives the trace what it makes of them.
template <class Change>
void edit_spans(Trace& trace, Change&& change) {
  std::vector<Span> spans(trace.spans.begin(), trace.spans.end());
  std::forward<Change>(change)(spans);
  trace.spans = Spans(spans);
}

}  // namespace lockstep::test
