#include "core/base/json_depth.hpp"

#include <cstddef>

namespace lockstep {

bool nests_too_deep(std::string_view json, int deepest) {
  int depth = 0;
  for (std::size_t at = 0; (at = json.find_first_of("[]{}\"", at)) != json.npos; ++at) {
    if (json[at] == ']' || json[at] == '}') {
      --depth;
    } else if (json[at] != '"') {
      if (++depth > deepest) return true;
    } else {
      for (++at; at < json.size() && json[at] != '"'; ++at) at += json[at] == '\\' ? 1 : 0;
    }
  }
  return false;
}

}  // namespace lockstep
