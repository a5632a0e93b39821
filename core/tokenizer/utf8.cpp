#include "core/tokenizer/utf8.hpp"

#include <algorithm>

namespace lockstep {
namespace {

/// How many bytes a first byte announces, and the range of the second one (Unicode, table 3-7).
struct Lead {
  std::size_t length = 0;
  unsigned low = 0x80, high = 0xbf;
};

Lead lead_of(unsigned char c) {
  if (c < 0x80) return {1};
  if (c < 0xc2 || c > 0xf4) return {0};
  if (c < 0xe0) return {2};
  if (c < 0xf0) return {3, c == 0xe0 ? 0xa0U : 0x80U, c == 0xed ? 0x9fU : 0xbfU};
  return {4, c == 0xf0 ? 0x90U : 0x80U, c == 0xf4 ? 0x8fU : 0xbfU};
}

/// How many bytes from `at` on begin a character.
std::size_t valid_bytes(std::string_view text, std::size_t at) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
  std::size_t good = std::min<std::size_t>(lead.length, 1);
  while (good < lead.length && at + good < text.size()) {
    const auto c = static_cast<unsigned char>(text[at + good]);
    const bool fits = good == 1 ? c >= lead.low && c <= lead.high : (c & 0xc0) == 0x80;
    if (!fits) break;
    ++good;
  }
  return good;
}

}  // namespace

void append_utf8(std::string& text, std::uint32_t c) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const std::size_t length = lead_of(static_cast<unsigned char>(text[at])).length;
  return valid_bytes(text, at) == length ? length : 0;
}

std::uint32_t utf8_at(std::string_view text, std::size_t at) {
  const std::size_t length = utf8_length(text, at);
  const auto first = static_cast<unsigned char>(text[at]);
  std::uint32_t c = length == 1 ? first : first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    c = c << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3fU);
  }
  return c;
}

std::string valid_utf8(std::string_view text) {
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length > 0) {
      made.append(text.substr(at, length));
      at += length;
    } else {
      made += "\xef\xbf\xbd";
      at += std::max<std::size_t>(1, valid_bytes(text, at));
    }
  }
  return made;
}

}  // namespace lockstep
