// read_file: the bytes of a file that somebody wrote, or made believe to have written.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.hpp"

namespace lockstep {

inline constexpr std::int64_t kLongestText = std::int64_t{256} << 20;  // bytes

/// Never holds more than `longest` bytes, whatever the system says of the file's size: a device has
/// none. Error InvalidSpec "cannot read PATH: why" if it cannot be read, is a folder or is longer.
Result<std::string> read_file(const std::string& path, std::int64_t longest = kLongestText);

}  // namespace lockstep
