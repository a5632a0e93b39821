// The glossary: docs/glossary.md, compiled in, so that the binary has it anywhere.
#pragma once

#include <string_view>

namespace lockstep::gui {

/// Markdown: a paragraph, then one section "### term" per term, in alphabetical order.
std::string_view glossary_text();

}  // namespace lockstep::gui
