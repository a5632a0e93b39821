// Links: what a span waited for, what waits for it, and whom it meets.
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

inline constexpr std::size_t kMaxLinks = 200;  // more are a tangle, and slow to draw

/// Direct neighbours of `span` in its step, the span itself on one end of each. Without a program,
/// only whom it meets. Linear in its rank's ops. At most kMaxLinks.
std::vector<Link> links_of(const RunView& run, SpanId span);

}  // namespace lockstep::gui
