#include "core/spec/keys/range.hpp"

namespace lockstep {

std::string Range::rule() const {
  if (text_ == "> 0") return "must be positive";
  if (text_ == ">= 0") return "must not be negative";
  std::string words(text_);
  for (std::size_t at = words.find(">= "); at != std::string::npos; at = words.find(">= ")) {
    words.replace(at, 3, "at least ");
  }
  return (words.front() == '[' || words.front() == '(' ? "must be in " : "must be ") + words;
}

}  // namespace lockstep
