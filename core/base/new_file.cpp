#include "core/base/new_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace lockstep {

namespace fs = std::filesystem;

NewFile::NewFile(const std::string& path, Links links)
    : path_(path), target_(path), temporary_(path) {
  std::error_code error;
  if (links == Links::Followed) {
    in_place_ = path.starts_with("/dev/") || fs::is_other(fs::status(path, error));
    if (in_place_) return;
    const fs::path behind = fs::canonical(path, error);
    if (!error) target_ = behind.string();
  }
  // Another process may write the same file at the same time.
  temporary_ = target_ + "." + std::to_string(getpid()) + ".tmp";
  if (!fs::is_directory(fs::symlink_status(temporary_, error))) {
    std::remove(temporary_.c_str());  // a link there would be followed
  }
}

NewFile::~NewFile() {
  if (!in_place_) std::remove(temporary_.c_str());
}

Result<void> NewFile::put_in_place() {
  if (in_place_) return {};
  std::error_code error;
  const fs::file_status before = fs::symlink_status(target_, error);  // no link, if one is followed
  if (fs::is_regular_file(before)) {
    if (access(target_.c_str(), W_OK) != 0) return failure();
    fs::permissions(temporary_, before.permissions(), error);
  }
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) return failure();
  in_place_ = true;
  return {};
}

Error NewFile::failure() const {
  return Error{ErrorKind::Device, "cannot write " + path_ + ": " + std::strerror(errno),
               std::nullopt};
}

Result<void> write_file(const std::string& path, const std::string& text, Links links) {
  NewFile file(path, links);
  {
    std::ofstream stream(file.temporary(), std::ios::binary | std::ios::trunc);
    if (!(stream << text << std::flush)) return file.failure();
  }
  return file.put_in_place();
}

}  // namespace lockstep
