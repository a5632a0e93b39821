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
/// ever. Two of them are the user's own: /dev/stdin, and the /dev/fd/63 of a shell's <(command).
bool is_no_file(const std::string& path);

/// Opens a file to be written, at its end or empty. The last name of `path` must be a file's or
/// nobody's: what a run writes into its folder follows no link that somebody has put there, and
/// waits for no pipe. The stream has failed, and errno says why, if it cannot be opened.
enum class Begin { AtEnd, Empty };
std::ofstream open_own_file(const std::string& path, Begin begin);
/// The same as a descriptor, with these flags of open(); -1, and errno, if it cannot be opened.
int open_own(const std::string& path, int flags);

/// Opens a file to be read. The stream has failed if it cannot be opened, or is_no_file().
std::ifstream open_file(const std::string& path);

}  // namespace lockstep
