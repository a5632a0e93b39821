// read_file: the bytes of a file that somebody wrote, or made believe to have written; and how
// every file is opened to be read.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "core/base/result.hpp"

namespace lockstep {

inline constexpr std::int64_t kLongestText = std::int64_t{256} << 20;  // bytes

/// Never holds more than `longest` bytes, whatever the system says of the file's size: a device has
/// none. Error InvalidSpec "cannot read PATH: why" if it cannot be read, is a folder, is longer, or
/// is_no_file().
Result<std::string> read_file(const std::string& path, std::int64_t longest = kLongestText);

/// Whether `path` is a pipe, a socket or a device, which opening or reading might wait for, for
/// ever. What stands in /dev is left to the user: /dev/stdin, and the /dev/fd/63 of a shell's
/// <(command).
bool is_no_file(const std::string& path);

/// Opens a file to be read. The stream has failed if it cannot be opened, or is_no_file().
std::ifstream open_file(const std::string& path);

}  // namespace lockstep
