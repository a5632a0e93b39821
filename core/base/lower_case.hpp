#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace lockstep {

/// The text with its letters of ASCII in lower case.
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace lockstep
