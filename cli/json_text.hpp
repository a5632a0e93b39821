// JSON text: how every command prints what --json asks for.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

/// JSON as it is printed: indented by two, names in the order in which they were added, a line at
/// the end. Names may come from any file: bytes that are no UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace lockstep
