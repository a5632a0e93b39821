// UTF-8: characters as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

void append_utf8(std::string& text, std::uint32_t character);
/// The bytes of the character that begins at `at`; 0 if what is there is no valid UTF-8 (overlong
/// forms, surrogates and what lies above U+10FFFF are not).
std::size_t utf8_length(std::string_view text, std::size_t at);
/// The character at `at`, of which utf8_length() is not 0.
std::uint32_t utf8_at(std::string_view text, std::size_t at);
/// Replaces what is no valid UTF-8 by U+FFFD, one for each maximal beginning of a character, as
/// Unicode recommends (chapter 3, "U+FFFD Substitution of Maximal Subparts").
std::string valid_utf8(std::string_view text);

}  // namespace lockstep
