// Stray text: non-ASCII characters outside strings and comments, where TOML does not allow them.
// toml++ up to 3.3 runs into undefined behaviour on some of them
// (is_non_ascii_horizontal_whitespace), so they are found before it parses.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace lockstep {

/// The first non-ASCII character outside strings and comments, or directly after a backslash (and
/// the line break it may escape) in a multi-line string. Stops at what toml++ reports itself.
std::optional<Error> find_stray_text(std::string_view text, const std::string& file);

}  // namespace lockstep
