// Drive: the file of a rank in which its offloaded states lie (Tier::Drive).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// One file, which is opened for direct I/O where its file system has that, because states are too
/// large for the page cache and would push everything else out of it. The file has no name from the
/// moment it is open, so that nothing is left of it however the run ends. Threads may read and
/// write at one time what does not overlap.
class Drive {
 public:
  /// Makes a file of `bytes` bytes, a multiple of kDriveBlock, in a folder that exists, and takes
  /// the room for them. Errors: InvalidSpec if the folder cannot be written to; OutOfMemory if it
  /// has no room; Device.
  static Result<std::unique_ptr<Drive>> open(const std::string& folder, Rank rank,
                                             std::int64_t bytes);
  ~Drive();
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

  /// `offset` is a multiple of kDriveBlock. A write that ends within a block changes the rest of
  /// it, too. Memory at such a multiple is read and written as it lies, other memory through a
  /// copy. Error: Device, naming rank, folder and the system's reason.
  Result<void> read(std::int64_t offset, std::span<std::byte> to);
  Result<void> write(std::int64_t offset, std::span<const std::byte> from);

  /// Copies everything to a second part of the file, for which the first call takes the room; and
  /// back. No other call may be under way.
  Result<void> keep();
  Result<void> restore();

  /// Whether the page cache is left out.
  bool direct() const { return direct_; }
  const std::string& folder() const { return folder_; }

 private:
  struct FreeBlocks {
    void operator()(std::byte* blocks) const;
  };
  using Blocks = std::unique_ptr<std::byte[], FreeBlocks>;
  enum class Does { Read, Write };

  Drive(std::string folder, Rank rank, int file, std::int64_t bytes, bool direct)
      : folder_(std::move(folder)), rank_(rank), file_(file), bytes_(bytes), direct_(direct) {}
  Result<void> take_room(std::int64_t from, std::int64_t bytes);
  Result<void> probe();
  /// Whole blocks between the file and memory at a multiple of kDriveBlock.
  Result<void> transfer(Does does, std::int64_t offset, std::byte* memory, std::int64_t bytes);
  Result<void> copy_within(std::int64_t from, std::int64_t to);
  Error error(Does does, std::int64_t offset, std::int64_t bytes, const std::string& why) const;
  static Blocks blocks(std::int64_t bytes);

  const std::string folder_;
  const Rank rank_;
  const int file_;
  const std::int64_t bytes_;
  bool direct_;
  bool has_second_part_ = false;
};

}  // namespace lockstep
