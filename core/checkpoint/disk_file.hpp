// DiskFile: a file that is written and read at any place, also by several processes at once, and
// whose data are on the disk once sync() has returned. Folders are synchronised like files, because
// a name, too, is lost in a crash until its folder is on the disk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/result.hpp"

namespace lockstep {

/// Errors name the file. They are of kind Device if it cannot be written, or not be opened because
/// the machine is short of something (kind_of_file_fault()), and InvalidSpec if it cannot be opened
/// otherwise, or not be read.
class DiskFile {
 public:
  static Result<DiskFile> create(const std::string& path);  // new, or empty again
  static Result<DiskFile> open_to_write(const std::string& path);
  static Result<DiskFile> open_to_read(const std::string& path);
  DiskFile(DiskFile&& other) noexcept;
  DiskFile& operator=(DiskFile&& other) noexcept;
  ~DiskFile();

  /// Makes the file so long, with disk space behind all of it where the file system can promise it.
  Result<void> reserve(std::int64_t bytes);
  Result<void> write(std::int64_t at, const void* from, std::size_t bytes);
  Result<void> read(std::int64_t at, void* to, std::size_t bytes) const;
  Result<void> sync();
  const std::string& path() const { return path_; }
  /// Which file it is, and when it was last written: equal for two that are the same.
  std::array<std::int64_t, 5> identity() const;

 private:
  DiskFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  static Result<DiskFile> open(const std::string& path, int flags, bool writes);
  std::string path_;
  int fd_ = -1;
};

/// Waits until the names in a folder are on the disk. Error Device.
Result<void> sync_folder(const std::string& path);
/// Writes a small file whole: under another name, synchronised, renamed, and its folder
/// synchronised. Error Device; then nothing is left of the new one.
Result<void> replace_file(const std::string& path, const std::string& text);

}  // namespace lockstep
