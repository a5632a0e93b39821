// Stray text: non-ASCII characters outside strings and comments, where TOML does not allow them.
// toml++ up to 3.3 runs into undefined behaviour on some of them
// (is_non_ascii_horizontal_whitespace), so they are found before it parses. So are keys of many
// parts, "a.b.c. …", for each of which it would make a table within a table, without a limit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace lockstep {

/// The most dots of a key. No key of ours has more than four.
inline constexpr int kDeepestKey = 16;

/// The first non-ASCII character outside strings and comments, or directly after a backslash (and
/// the line break it may escape) in a multi-line string; or the first key of more than kDeepestKey
/// dots. Stops at what toml++ reports itself.
std::optional<Error> find_stray_text(std::string_view text, const std::string& file);

}  // namespace lockstep
