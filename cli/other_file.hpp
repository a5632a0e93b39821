// Other files: what was given where a scenario is wanted, and the command that takes it.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.hpp"

namespace lockstep {

/// Says what the file is and what to do with it, if it is certainly no scenario; nothing otherwise.
std::optional<Error> other_than_scenario(const std::string& path);

}  // namespace lockstep
