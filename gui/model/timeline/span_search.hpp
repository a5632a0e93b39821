// Searching spans: by words, and along a lane.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/index_vector.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// Which spans a search means. Words, all of which must be found, ignoring case, in the op's name,
/// kind, label ("F3"), stream or rank ("rank 2"). No words: nothing matches.
class SpanQuery {
 public:
  SpanQuery() = default;
  SpanQuery(const RunView& run, const std::string& words);
  bool empty() const { return op_matches_.empty(); }
  bool matches(const Span& span) const;
  /// The next match after `from` (before it: `forward` false) by time, then by rank; the first
  /// (last) one without `from`; none: the search has come to the end. Linear in the spans.
  std::optional<SpanId> next(std::optional<SpanId> from, bool forward) const;
  std::size_t count() const;

 private:
  const RunView* run_ = nullptr;
  IndexVector<Rank, IndexVector<OpId, bool>> op_matches_;  // by rank, by op of its role
};

/// The span before (-1) or after (+1) on its lane, over the borders of steps.
std::optional<SpanId> neighbour(const RunView& run, SpanId span, int by);

}  // namespace lockstep::gui
