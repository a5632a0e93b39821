#include "core/run/drive.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

namespace lockstep {
namespace {

constexpr std::align_val_t kBlockAlignment{kDriveBlock};
// What one call of the system moves; Linux moves at most 2 GiB less a page.
constexpr std::int64_t kMostAtOnce = std::int64_t{1} << 30;
constexpr std::int64_t kCopied = std::int64_t{8} << 20;  // through a copy of memory, at a time

std::string reason(int code) { return std::strerror(code); }

bool in_blocks(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kDriveBlock == 0;
}

/// Opens a new file and takes its name away. Sets `direct` to whether the page cache is left out.
/// Returns -1, and errno, if there is no such file.
int open_nameless(const std::string& path, bool& direct) {
  constexpr int kNew = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  constexpr int kOwner = 0600;
  int file = -1;
  direct = false;
#ifdef O_DIRECT
  file = ::open(path.c_str(), kNew | O_DIRECT, kOwner);
  direct = file >= 0;
  // Some file systems make the file before they refuse.
  if (!direct && errno == EINVAL) static_cast<void>(::unlink(path.c_str()));
  if (!direct && errno != EINVAL && errno != ENOENT) return -1;
#endif
  if (file < 0) file = ::open(path.c_str(), kNew, kOwner);
  if (file >= 0) static_cast<void>(::unlink(path.c_str()));
  return file;
}

}  // namespace

void Drive::FreeBlocks::operator()(std::byte* blocks) const {
  ::operator delete[](blocks, kBlockAlignment);
}

Drive::Blocks Drive::blocks(std::int64_t bytes) {
  return Blocks(static_cast<std::byte*>(
      ::operator new[](to_size(round_up(bytes, kDriveBlock)), kBlockAlignment)));
}

Result<std::unique_ptr<Drive>> Drive::open(const std::string& folder, Rank rank,
                                           std::int64_t bytes) {
  const auto unfit = [&](const std::string& why) {
    return Error{ErrorKind::InvalidSpec,
                 "rank " + std::to_string(rank) + " keeps states in a file in '" + folder +
                     "', which " + why +
                     ": make the folder, or name another (parallelism.offload_nvme_path)",
                 std::nullopt};
  };
  std::error_code failed;
  if (!std::filesystem::exists(folder, failed)) return unfit("does not exist");
  if (!std::filesystem::is_directory(folder, failed)) return unfit("is no folder");
  const std::string name =
      "lockstep-" + std::to_string(::getpid()) + "-rank-" + std::to_string(rank) + ".states";
  bool direct = false;
  const int file = open_nameless((std::filesystem::path(folder) / name).string(), direct);
  if (file < 0) return unfit("cannot be written to (" + reason(errno) + ")");
  std::unique_ptr<Drive> drive(new Drive(folder, rank, file, bytes, direct));
  if (auto taken = drive->take_room(0, bytes); !taken) return taken.error();
  if (auto works = drive->probe(); !works) return works.error();
  return drive;
}

Drive::~Drive() { ::close(file_); }

/// Takes the room at once, so that a full drive is an error before training and not in a step.
Result<void> Drive::take_room(std::int64_t from, std::int64_t bytes) {
  int failed = 0;
  do {
    failed = ::posix_fallocate(file_, from, bytes);
  } while (failed == EINTR);
  if (failed == 0) return {};
  std::string free;
  if (struct statvfs room{}; ::statvfs(folder_.c_str(), &room) == 0) {
    free = ", where " + std::to_string(static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize) +
           " B are free";
  }
  const bool full = failed == ENOSPC || failed == EFBIG || failed == EDQUOT;
  return Error{full ? ErrorKind::OutOfMemory : ErrorKind::Device,
               "rank " + std::to_string(rank_) + " needs a file of " +
                   std::to_string(from + bytes) + " B in '" + folder_ + "'" + free + " (" +
                   reason(failed) +
                   "): name a folder on a larger drive (parallelism.offload_nvme_path)",
               std::nullopt};
}

/// Reads a block. Some file systems take the flag of direct I/O, and then refuse to do it.
Result<void> Drive::probe() {
  if (bytes_ == 0) return {};
  const Blocks block = blocks(kDriveBlock);
  auto read = transfer(Does::Read, 0, block.get(), kDriveBlock);
  if (read || !direct_) return read;
  if (::fcntl(file_, F_SETFL, 0) != 0) return read;
  direct_ = false;
  return transfer(Does::Read, 0, block.get(), kDriveBlock);
}

Error Drive::error(Does does, std::int64_t offset, std::int64_t bytes,
                   const std::string& why) const {
  return Error{ErrorKind::Device,
               "rank " + std::to_string(rank_) + " cannot " +
                   (does == Does::Read ? "read " : "write ") + std::to_string(bytes) + " B at " +
                   std::to_string(offset) + " of its file in '" + folder_ + "': " + why,
               std::nullopt};
}

Result<void> Drive::transfer(Does does, std::int64_t offset, std::byte* memory,
                             std::int64_t bytes) {
  while (bytes > 0) {
    const std::size_t some = to_size(std::min(bytes, kMostAtOnce));
    const ssize_t moved = does == Does::Read ? ::pread(file_, memory, some, offset)
                                             : ::pwrite(file_, memory, some, offset);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return error(does, offset, bytes, reason(errno));
    if (moved == 0) return error(does, offset, bytes, "the file ends there");
    // What is left has to begin at a block again.
    const std::int64_t whole = direct_ ? moved / kDriveBlock * kDriveBlock : moved;
    if (whole == 0) return error(does, offset, bytes, "only a part of a block was moved");
    offset += whole;
    memory += whole;
    bytes -= whole;
  }
  return {};
}

Result<void> Drive::read(std::int64_t offset, std::span<std::byte> to) {
  const auto size = static_cast<std::int64_t>(to.size());
  const std::int64_t straight = in_blocks(to.data()) ? size / kDriveBlock * kDriveBlock : 0;
  if (auto done = transfer(Does::Read, offset, to.data(), straight); !done) return done;
  if (straight == size) return {};
  const Blocks copy = blocks(std::min(size - straight, kCopied));
  for (std::int64_t at = straight; at < size; at += kCopied) {
    const std::int64_t some = std::min(size - at, kCopied);
    auto done = transfer(Does::Read, offset + at, copy.get(), round_up(some, kDriveBlock));
    if (!done) return done;
    std::memcpy(to.data() + at, copy.get(), to_size(some));
  }
  return {};
}

Result<void> Drive::write(std::int64_t offset, std::span<const std::byte> from) {
  const auto size = static_cast<std::int64_t>(from.size());
  const std::int64_t straight = in_blocks(from.data()) ? size / kDriveBlock * kDriveBlock : 0;
  // transfer() writes to memory only where it reads the file.
  auto* const memory = const_cast<std::byte*>(from.data());
  if (auto done = transfer(Does::Write, offset, memory, straight); !done) return done;
  if (straight == size) return {};
  const Blocks copy = blocks(std::min(size - straight, kCopied));
  for (std::int64_t at = straight; at < size; at += kCopied) {
    const std::int64_t some = std::min(size - at, kCopied);
    const std::int64_t whole = round_up(some, kDriveBlock);
    std::memcpy(copy.get(), from.data() + at, to_size(some));
    std::memset(copy.get() + some, 0, to_size(whole - some));
    if (auto done = transfer(Does::Write, offset + at, copy.get(), whole); !done) return done;
  }
  return {};
}

Result<void> Drive::copy_within(std::int64_t from, std::int64_t to) {
  const Blocks copy = blocks(std::min(bytes_, kCopied));
  for (std::int64_t at = 0; at < bytes_; at += kCopied) {
    const std::int64_t some = std::min(bytes_ - at, kCopied);
    if (auto done = transfer(Does::Read, from + at, copy.get(), some); !done) return done;
    if (auto done = transfer(Does::Write, to + at, copy.get(), some); !done) return done;
  }
  return {};
}

Result<void> Drive::keep() {
  if (!has_second_part_) {
    if (auto taken = take_room(bytes_, bytes_); !taken) return taken;
    has_second_part_ = true;
  }
  return copy_within(0, bytes_);
}

Result<void> Drive::restore() { return copy_within(bytes_, 0); }

}  // namespace lockstep
