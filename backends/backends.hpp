// backends: the list of what is built.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/run/backend.hpp"

namespace lockstep {

/// "sim", "cpu", "cuda": error with the nearest name, or with why it is not available here.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name);
std::vector<std::string> backend_names();

}  // namespace lockstep
