#include "core/base/read_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace lockstep {

Result<std::string> read_file(const std::string& path, std::int64_t longest) {
  constexpr std::size_t kBlock = 1 << 16;
  const auto unread = [&](const std::string& why) {
    return invalid("cannot read " + path + ": " + why);
  };
  if (is_no_file(path)) return unread("it is a pipe, a socket or a device, not a file");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr) return unread(std::strerror(errno));
  std::string text;
  for (std::size_t got = kBlock; got == kBlock;) {
    const std::size_t held = text.size();
    text.resize(held + kBlock);
    got = std::fread(text.data() + held, 1, kBlock, file.get());
    if (got < kBlock && std::ferror(file.get()) != 0) return unread(std::strerror(errno));
    text.resize(held + got);
    if (static_cast<std::int64_t>(text.size()) > longest) {
      return unread("it is longer than " + std::to_string(longest) + " bytes");
    }
  }
  return text;
}

bool is_no_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  const bool users =
      path == "/dev/stdin" || (path.starts_with("/dev/fd/") &&
                               path.find_first_not_of("0123456789", 8) == std::string::npos);
  return is_other(status) && !users;
}

int open_own(const std::string& path, int flags) {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int file = ::open(path.c_str(), flags | kFlags, 0666);
  struct stat status {};
  if (file < 0 || (::fstat(file, &status) == 0 && S_ISREG(status.st_mode))) return file;
  ::close(file);
  errno = EINVAL;
  return -1;
}

std::ofstream open_own_file(const std::string& path, Begin begin) {
  const bool empty = begin == Begin::Empty;
  std::ofstream stream;
  stream.setstate(std::ios::failbit);
  const int file = open_own(path, O_WRONLY | O_CREAT | (empty ? O_TRUNC : O_APPEND));
  if (file < 0) return stream;
  stream.clear();
  // The file that was looked at is the one that is written, whatever stands there meanwhile.
  stream.open("/proc/self/fd/" + std::to_string(file),
              std::ios::binary | (empty ? std::ios::trunc : std::ios::app));
  const int why = errno;
  ::close(file);
  errno = why;
  return stream;
}

std::ifstream open_file(const std::string& path) {
  std::ifstream file;
  if (is_no_file(path)) {
    file.setstate(std::ios::failbit);
  } else {
    file.open(path, std::ios::binary);
  }
  return file;
}

}  // namespace lockstep
