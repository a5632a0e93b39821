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

NewFile::NewFile(const std::string& path) : path_(path), target_(path), temporary_(path) {
  std::error_code error;
  in_place_ = path.starts_with("/dev/") || fs::is_other(fs::status(path, error));
  if (in_place_) return;
  const fs::path behind = fs::canonical(path, error);
  if (!error) target_ = behind.string();
  // Another process may write the same file at the same time.
  temporary_ = target_ + "." + std::to_string(getpid()) + ".tmp";
}

NewFile::~NewFile() {
  if (!in_place_) std::remove(temporary_.c_str());
}

Result<void> NewFile::put_in_place() {
  if (in_place_) return {};
  std::error_code error;
  const fs::file_status before = fs::status(target_, error);
  if (fs::exists(before)) {
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

Result<void> write_file(const std::string& path, const std::string& text) {
  NewFile file(path);
  {
    std::ofstream stream(file.temporary(), std::ios::binary | std::ios::trunc);
    if (!(stream << text << std::flush)) return file.failure();
  }
  return file.put_in_place();
}

}  // namespace lockstep
