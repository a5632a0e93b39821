// Glossary: docs/glossary.md, compiled into the binary, so that it is there on any machine.
#pragma once

#include <string_view>

namespace lockstep::gui {

/// The glossary as Markdown: a paragraph, then a section "### term" for each term, in alphabetical
/// order.
std::string_view glossary_text();

}  // namespace lockstep::gui
