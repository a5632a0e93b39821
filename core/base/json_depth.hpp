// json_depth: what is asked of a JSON text before it is parsed.
#pragma once

#include <string_view>

namespace lockstep {

/// As deep as objects and lists may lie in each other. Files that mean something have ten levels; a
/// value of thousands would overflow the stack of whatever copies, prints or visits it.
inline constexpr int kDeepestJson = 64;

/// Whether they lie deeper anywhere. Takes any text, whether it is JSON or not.
bool nests_too_deep(std::string_view json, int deepest = kDeepestJson);

}  // namespace lockstep
