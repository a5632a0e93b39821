// Span search: finds spans by words, and along a lane.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/index_vector.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// Which spans a search means. All words must occur, ignoring case, in the op's name, kind, label
/// ("F3"), stream or rank ("rank 2"). Without words nothing matches.
class SpanQuery {
 public:
  SpanQuery() = default;
  SpanQuery(const RunView& run, const std::string& words);
  bool empty() const { return op_matches_.empty(); }
  bool matches(const Span& span) const;
  /// The next match after `from`, or before it if `forward` is false, by time and then by rank.
  /// Without `from` it is the first, or last, match. Empty at the end of the search. Takes time
  /// linear in the spans.
  std::optional<SpanId> next(std::optional<SpanId> from, bool forward) const;
  std::size_t count() const;

 private:
  const RunView* run_ = nullptr;
  IndexVector<Rank, IndexVector<OpId, bool>> op_matches_;  // by rank, by op of its role
};

/// The span before (`by` -1) or after (+1) a span on its lane, also across the borders of steps.
std::optional<SpanId> neighbour(const RunView& run, SpanId span, int by);

}  // namespace lockstep::gui
