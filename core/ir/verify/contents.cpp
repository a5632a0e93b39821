#include "core/ir/verify/values.hpp"

namespace lockstep::verification {

/// Replaces the messages that the range receives by what was sent. Returns false if one has not
/// been sent yet.
bool Values::receive(RoleRun& run, const Touch& touch) {
  std::vector<std::int32_t> waiting;
  const auto& held = run.held(touch.root);
  held.visit(touch.begin, touch.end, [&](std::int64_t, std::int64_t, const Content& c) {
    if (c.meaning.what == Means::Message) waiting.push_back(c.meaning.id);
  });
  for (const std::int32_t which : waiting) {
    const Receipt& receipt = receipts_[which];
    const auto& sent = messages_[receipt.channel];
    if (sent.next() <= receipt.index) return false;
    put(run, receipt.into, sent[receipt.index]);
    run.awaited.push_back({run.next, receipt.op});
    run.noted[run.next] = 1;
  }
  return true;
}

bool Values::holds(RoleRun& run, const Touch& touch, std::vector<Held>& out) {
  out.clear();
  if (!receive(run, touch)) return false;
  const auto& held = run.held(touch.root);
  std::int64_t at = 0;
  held.visit(touch.begin, touch.end, [&](std::int64_t begin, std::int64_t end, Content c) {
    c.origin -= touch.begin;
    begin = std::max(begin, touch.begin) - touch.begin;
    end = std::min(end, touch.end) - touch.begin;
    if (begin > at) out.push_back({at, begin, {}});
    out.push_back({begin, end, c});
    at = end;
  });
  if (at < touch.end - touch.begin) out.push_back({at, touch.end - touch.begin, {}});
  return true;
}

bool Values::holds(RoleRun& run, OpId id, std::size_t arg, std::vector<Held>& out) {
  const Op& op = run.role.op(id);
  const Touch touch = run.ranges.touch(op, arg);
  if (!holds(run, touch, out)) return false;
  const Buffer& buffer = run.role.buffer(run.role.args_of(op)[arg]);
  if (!buffer.piece_of().valid()) return true;
  std::optional<Content> whole = unite(out);
  if (!whole) {
    out.clear();
    return true;
  }
  whole->pattern = piece_of_whole(whole->pattern, program_.group(buffer.piece_of()));
  out = {{0, buffer.bytes.v, *whole}};
  if (whole->pattern == 0) out.clear();
  return true;
}

/// Finds one content for the whole range. If it has several parts, their patterns become one; their
/// meaning is known only if it is the same for all, apart from zeros.
bool Values::content(RoleRun& run, const Touch& touch, Content& out) {
  const auto& map = run.held(touch.root);
  bool one = false, message = false, none = touch.begin < touch.end;
  map.visit(touch.begin, touch.end, [&](std::int64_t begin, std::int64_t end, const Content& c) {
    none = false;
    one = begin <= touch.begin && touch.end <= end;
    if (one) out = c;
    message = message || c.meaning.what == Means::Message;
  });
  if (none) {  // nothing is written there, which fits everything
    out = {};
    out.meaning.what = Means::Zeros;
    return true;
  }
  if (one && !message) {
    out.origin -= touch.begin;
    if (out.origin == 0 || patterns_.is_uniform(out.pattern)) return true;
  }
  std::vector<Held> parts;
  if (!holds(run, touch, parts)) return false;
  out = {};
  Pattern pattern;
  for (const Held& part : parts) {
    const Content& c = part.content;
    if (c.pattern == 0) continue;  // nothing is written there
    if (c.meaning.what != Means::Zeros) {
      const bool first = out.meaning.what == Means::Unknown;
      Meaning other = c.meaning;
      if (out.meaning.own || other.own) out.meaning.own = other.own = true;  // of a part, or of all
      if (first) {
        out.meaning = other;
        out.origin = c.origin;
      } else if (out.meaning != other || out.origin != c.origin) {
        out.meaning = {};
        out.meaning.id = 1;  // there are several meanings
      }
    }
    for (const Pattern::Piece& piece : patterns_.at(c.pattern).pieces) {
      const bool endless = piece.end == Patterns::kEndless;
      const std::int64_t begin =
          endless ? part.begin : std::max(part.begin, piece.begin + c.origin);
      const std::int64_t end = endless ? part.end : std::min(part.end, piece.end + c.origin);
      if (begin >= end) continue;
      auto& pieces = pattern.pieces;
      if (!pieces.empty() && pieces.back().end == begin && pieces.back().as == piece.as) {
        pieces.back().end = end;
      } else {
        pieces.push_back({begin, end, piece.as});
      }
    }
  }
  if (out.meaning.what == Means::Unknown && out.meaning.id < 0 && !parts.empty()) {
    out.meaning.what = Means::Zeros;
  }
  auto& pieces = pattern.pieces;
  if (pieces.size() == 1 && pieces[0].begin == 0 && pieces[0].end == touch.end - touch.begin) {
    pieces[0].end = Patterns::kEndless;
  }
  out.pattern = patterns_.intern(std::move(pattern));
  return true;
}

/// What all parts hold, apart from zeros; nullopt if they differ, or if there is nothing else.
std::optional<Content> Values::unite(const std::vector<Held>& held) const {
  std::optional<Content> all;
  for (const Held& part : held) {
    if (part.content.meaning.what == Means::Zeros) continue;
    const Meaning& other = part.content.meaning;
    const bool both = all && all->meaning.own && other.own;
    const bool alike = all && (all->meaning.own || other.own) && all->meaning.what == other.what &&
                       all->meaning.id == other.id;
    if ((both || alike) && all->pattern == part.content.pattern) {
      all->meaning.own = true;  // the user knows how they lie
      continue;
    }
    if (all && !(part.content == *all)) return std::nullopt;
    if (held.size() > 1 && !patterns_.is_uniform(part.content.pattern)) return std::nullopt;
    all = part.content;
  }
  return all;
}

/// What each argument of a call holds, and its pattern, if that is one content.
bool Values::arguments(RoleRun& run, OpId id, IndexVector<int, std::optional<Content>>& held,
                       std::vector<PatternId>& found) {
  std::vector<Held> parts_held;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (!holds(run, id, i, parts_held)) return false;
    held[i] = unite(parts_held);
    if (held[i]) found[i] = held[i]->pattern;
  }
  return true;
}

void Values::put(RoleRun& run, const Touch& touch, const std::vector<Held>& held) {
  auto& map = run.held(touch.root);
  for (const Held& part : held) {
    Content c = part.content;
    c.origin += touch.begin;
    map.assign(touch.begin + part.begin, touch.begin + part.end, c);
  }
}

void Values::put(RoleRun& run, const Touch& touch, Content content) {
  content.origin += touch.begin;
  run.held(touch.root).assign(touch.begin, touch.end, content);
}

void Values::put(RoleRun& run, OpId id, std::size_t arg, const std::vector<Held>& held) {
  const Op& op = run.role.op(id);
  const Touch touch = run.ranges.touch(op, arg);
  const Buffer& buffer = run.role.buffer(run.role.args_of(op)[arg]);
  if (!buffer.piece_of().valid()) return put(run, touch, held);
  std::optional<Content> piece = unite(held);
  if (piece) piece->pattern = whole_of_piece(piece->pattern, program_.group(buffer.piece_of()));
  if (!piece || piece->pattern == 0) piece.emplace();  // there is no whole with such pieces
  put(run, touch, *piece);
}

PatternId Values::placed_along(PatternId pattern, int axis, Along along) {
  if (axis < 0) return pattern;
  Pattern result = patterns_.at(pattern);
  for (Pattern::Piece& piece : result.pieces) piece.as.placement.set(axis, along);
  return patterns_.intern(std::move(result));
}

/// The pattern after `change` of its placements along the group's axes; 0 if `change` refuses one,
/// or if an axis is not followed (spread_axes).
template <class Change>
PatternId Values::changed(PatternId pattern, const Group& group, Change&& change) {
  Pattern result = patterns_.at(pattern);
  for (const int axis : group.dims) {
    const bool spread = std::find(axes_.begin(), axes_.end(), axis) != axes_.end();
    if (!spread && program_.mesh.dims[axis].size > 1) return 0;
  }
  for (Pattern::Piece& piece : result.pieces) {
    for (const int axis : axes_) {
      if (std::find(group.dims.begin(), group.dims.end(), axis) == group.dims.end()) continue;
      const std::optional<Along> along = change(piece.as.placement.along(axis));
      if (!along) return 0;
      piece.as.placement.set(axis, *along);
    }
  }
  return patterns_.intern(std::move(result));
}

PatternId Values::renamed(PatternId pattern, const std::vector<int>& axes, Along from, Along to) {
  if (axes.empty()) return pattern;
  Pattern result = patterns_.at(pattern);
  for (Pattern::Piece& piece : result.pieces) {
    for (const int axis : axes) {
      if (piece.as.placement.along(axis) == from) piece.as.placement.set(axis, to);
    }
  }
  return patterns_.intern(std::move(result));
}

/// Lets zeros, such as those that pad a flat unit, be placed as what stands beside them. The
/// pattern stays as it is if what is not zero is placed in several ways, or if a byte of [0, bytes)
/// is not written.
PatternId Values::with_zeros_filled(PatternId pattern, std::int64_t bytes) {
  if (axes_.empty() || patterns_.is_uniform(pattern)) return pattern;
  std::optional<PlacedAs> one;
  std::int64_t written = 0;
  for (const Pattern::Piece& piece : patterns_.at(pattern).pieces) {
    if (piece.begin != written) return pattern;
    written = piece.end;
    if (piece.as.placement.along(axes_[0]) == Along::Zero) continue;
    if (one && *one != piece.as) return pattern;
    one = piece.as;
  }
  return one && written >= bytes ? patterns_.uniform(*one) : pattern;
}

PatternId Values::piece_of_whole(PatternId whole, const Group& group) {
  if (!patterns_.is_uniform(whole)) return 0;
  return changed(whole, group, [](Along a) -> std::optional<Along> {
    if (a == Along::Same || a == Along::Piece) return Along::Flat;
    return std::nullopt;
  });
}

PatternId Values::whole_of_piece(PatternId piece, const Group& group) {
  if (!patterns_.is_uniform(piece)) return 0;
  return changed(piece, group, [](Along a) -> std::optional<Along> {
    if (a == Along::Flat) return Along::Piece;
    return std::nullopt;
  });
}

/// A rank's own piece of a matrix that was gathered is its part of the matrix again.
void Values::pieces_are_parts(const RoleRun& run, Content& direction) {
  const int u = run.units[direction.meaning.id];
  if (u < 0 || !run.role.units[u].split_group.valid()) return;
  const Group& group = program_.group(run.role.units[u].split_group);
  const PatternId parts = changed(direction.pattern, group, [](Along a) -> std::optional<Along> {
    return a == Along::Flat ? Along::Split : a;
  });
  if (parts != 0) direction.pattern = parts;
}

}  // namespace lockstep::verification
