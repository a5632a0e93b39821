#include "core/base/read_file.hpp"

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
  return is_other(status) && !path.starts_with("/dev/");
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
