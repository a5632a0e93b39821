// The shape of a tensor as text, for messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// "[768, 2304]".
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace lockstep
