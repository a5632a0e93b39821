// Wrapped text: words that may need several lines.
#pragma once

#include <string>
#include <vector>

#include "gui/draw/display_list.hpp"

namespace lockstep::gui {

/// Breaks words into at most `lines` lines of `width`. The last line ends in "…" if words are left.
std::vector<std::string> wrap(const std::string& words, double width, int lines,
                              const TextSize& text);

/// Writes into the middle of an empty picture what it is for, in as many lines as its width needs.
void write_hint(DisplayList& list, QRectF rect, const std::string& words, const TextSize& text);

}  // namespace lockstep::gui
