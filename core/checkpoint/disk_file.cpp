#include "core/checkpoint/disk_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/file_fault.hpp"
#include "core/base/read_file.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kLargestCall = std::size_t{1} << 30;

Error cannot(const std::string& path, const char* what, ErrorKind kind = ErrorKind::Device) {
  return {kind, path + ": cannot be " + what + ": " + std::strerror(errno), std::nullopt};
}

}  // namespace

Result<DiskFile> DiskFile::open(const std::string& path, int flags, bool writes) {
  if (is_no_file(path)) {
    return invalid(path + ": it is a pipe, a socket or a device, not a file");
  }
  const int fd = writes ? open_own(path, flags) : ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return cannot(path, writes ? "written" : "read", kind_of_file_fault(errno));
  return DiskFile(path, fd);
}

Result<DiskFile> DiskFile::create(const std::string& path) {
  return open(path, O_RDWR | O_CREAT | O_TRUNC, true);
}
Result<DiskFile> DiskFile::open_to_write(const std::string& path) {
  return open(path, O_RDWR, true);
}
Result<DiskFile> DiskFile::open_to_read(const std::string& path) {
  return open(path, O_RDONLY, false);
}

DiskFile::DiskFile(DiskFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

DiskFile& DiskFile::operator=(DiskFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

DiskFile::~DiskFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> DiskFile::reserve(std::int64_t bytes) {
  if (bytes > 0 && ::fallocate(fd_, 0, 0, bytes) == 0) return {};
  if (bytes > 0 && errno != EOPNOTSUPP && errno != ENOSYS) return cannot(path_, "written");
  if (::ftruncate(fd_, bytes) != 0) return cannot(path_, "written");
  return {};
}

Result<void> DiskFile::write(std::int64_t at, const void* from, std::size_t bytes) {
  const auto* data = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t wrote = ::pwrite(fd_, data, std::min(bytes, kLargestCall), at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return cannot(path_, "written");
    data += wrote;
    at += wrote;
    bytes -= static_cast<std::size_t>(wrote);
  }
  return {};
}

Result<void> DiskFile::read(std::int64_t at, void* to, std::size_t bytes) const {
  auto* data = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_, data, std::min(bytes, kLargestCall), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot(path_, "read", ErrorKind::InvalidSpec);
    if (got == 0) {
      return Error{ErrorKind::Parse, path_ + ": has become shorter while it was read", {}};
    }
    data += got;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return {};
}

std::array<std::int64_t, 5> DiskFile::identity() const {
  struct stat s {};
  ::fstat(fd_, &s);
  return {static_cast<std::int64_t>(s.st_dev), static_cast<std::int64_t>(s.st_ino), s.st_size,
          s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
}

Result<void> DiskFile::sync() {
  if (::fsync(fd_) != 0) return cannot(path_, "written");
  return {};
}

Result<void> sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return cannot(path, "synchronised");
  // Some file systems have nothing to synchronise in a folder and say so with EINVAL.
  const bool well = ::fsync(fd) == 0 || errno == EINVAL;
  const Error error = cannot(path, "synchronised");
  ::close(fd);
  if (!well) return error;
  return {};
}

Result<void> replace_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  Result<DiskFile> file = DiskFile::create(temporary);
  if (!file) return file.error();
  Result<void> wrote = file->write(0, text.data(), text.size());
  if (wrote) wrote = file->sync();
  if (wrote && std::rename(temporary.c_str(), path.c_str()) != 0) wrote = cannot(path, "written");
  if (!wrote) {
    std::remove(temporary.c_str());
    return wrote;
  }
  return sync_folder(std::filesystem::path(path).parent_path().string());
}

}  // namespace lockstep
