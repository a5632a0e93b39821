// Links: what a span waited for, what waits for it, and the spans of peers that it meets.
#pragma once

#include <vector>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

struct Link {
  enum class Kind { Dependency, Message, Collective };
  Kind kind = Kind::Dependency;
  SpanId from = 0, to = 0;  // `from` had to end, or to arrive, before `to` could go on
  bool operator==(const Link&) const = default;
};

inline constexpr std::size_t kMaxLinks = 200;  // more cannot be told apart, and are slow to draw
/// The links of `span` to its direct neighbours in its step; the span is at one end of each.
/// Without a program there are only those to the spans that it meets. Takes time linear in the ops
/// of its rank, and returns at most kMaxLinks.
std::vector<Link> links_of(const RunView& run, SpanId span);

}  // namespace lockstep::gui
