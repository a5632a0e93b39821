// Tests the file of what lies on a drive: what is written is read, and what goes wrong is said.
#include "core/run/drive.hpp"

#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;

namespace {

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

std::unique_ptr<Drive> opened(const TemporaryFolder& folder, std::int64_t bytes) {
  auto drive = Drive::open(folder.path.string(), 0, bytes);
  if (!drive) FAIL(drive.error().message);
  return std::move(*drive);
}

/// Memory that begins `shift` bytes after a block.
struct Memory {
  explicit Memory(std::size_t count, std::size_t shift = 0) : all(count + kDriveBlock + shift) {
    void* at = all.data();
    std::size_t space = all.size();
    std::align(kDriveBlock, count, at, space);
    bytes = {static_cast<std::byte*>(at) + shift, count};
  }
  std::vector<std::byte> all;
  std::span<std::byte> bytes;
};

}  // namespace

TEST_CASE("a drive gives back what it was given, wherever it lies in memory", "[core][run]") {
  const TemporaryFolder folder;
  const std::size_t block = kDriveBlock, much = std::size_t{9} << 20;
  const auto drive = opened(folder, 32 << 20);
  unsigned seed = 0;
  for (const std::size_t count :
       {std::size_t{1}, block - 1, block, block + 1, 3 * block + 77, much + 5}) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{64}}) {
      INFO(count << " bytes, " << shift << " behind a block");
      const std::vector<std::byte> bytes = random_bytes(count, ++seed);
      Memory from(count, shift), to(count, 64 - shift);
      std::copy(bytes.begin(), bytes.end(), from.bytes.begin());
      REQUIRE(drive->write(2 * kDriveBlock, from.bytes).ok());
      REQUIRE(drive->read(2 * kDriveBlock, to.bytes).ok());
      CHECK(std::equal(bytes.begin(), bytes.end(), to.bytes.begin()));
    }
  }
}

TEST_CASE("a write leaves the blocks before and behind it as they were", "[core][run]") {
  const TemporaryFolder folder;
  const auto drive = opened(folder, 4 * kDriveBlock);
  const std::vector<std::byte> all = random_bytes(4 * kDriveBlock, 1), some = random_bytes(10, 2);
  REQUIRE(drive->write(0, all).ok());
  REQUIRE(drive->write(kDriveBlock, some).ok());
  std::vector<std::byte> read(all.size());
  REQUIRE(drive->read(0, read).ok());
  CHECK(std::equal(all.begin(), all.begin() + kDriveBlock, read.begin()));
  CHECK(std::equal(some.begin(), some.end(), read.begin() + kDriveBlock));
  CHECK(std::equal(all.begin() + 2 * kDriveBlock, all.end(), read.begin() + 2 * kDriveBlock));
}

TEST_CASE("a drive goes back to what it kept", "[core][run]") {
  const TemporaryFolder folder;
  const auto drive = opened(folder, 3 * kDriveBlock);
  const std::vector<std::byte> before = random_bytes(3 * kDriveBlock, 1);
  REQUIRE(drive->write(0, before).ok());
  REQUIRE(drive->keep().ok());
  for (unsigned again = 2; again < 4; ++again) {
    REQUIRE(drive->write(0, random_bytes(3 * kDriveBlock, again)).ok());
    REQUIRE(drive->restore().ok());
    std::vector<std::byte> read(before.size());
    REQUIRE(drive->read(0, read).ok());
    CHECK(read == before);
  }
}

TEST_CASE("a drive leaves nothing in its folder, even while it is open", "[core][run]") {
  const TemporaryFolder folder;
  const auto drive = opened(folder, kDriveBlock);
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("a folder that cannot hold the file is an error that says so", "[core][run]") {
  const TemporaryFolder folder;
  const auto missing = Drive::open(folder / "no-such-folder", 3, kDriveBlock);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().kind == ErrorKind::InvalidSpec);
  CHECK(missing.error().message.find("rank 3") != std::string::npos);
  CHECK(missing.error().message.find("does not exist") != std::string::npos);

  write_bytes(folder / "file", "text");
  const auto file = Drive::open(folder / "file", 0, kDriveBlock);
  REQUIRE_FALSE(file.ok());
  CHECK(file.error().message.find("is no folder") != std::string::npos);

  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / kDriveBlock * kDriveBlock;
  const auto full = Drive::open(folder.path.string(), 0, most);
  REQUIRE_FALSE(full.ok());
  CHECK(full.error().kind == ErrorKind::OutOfMemory);
  CHECK(full.error().message.find("are free") != std::string::npos);
  CHECK(std::filesystem::is_empty(folder.path) == false);  // "file" is still there
}

TEST_CASE("reading beyond the end of the file is an error with place and folder", "[core][run]") {
  const TemporaryFolder folder;
  const auto drive = opened(folder, kDriveBlock);
  std::vector<std::byte> read(2 * kDriveBlock);
  const auto done = drive->read(0, read);
  REQUIRE_FALSE(done.ok());
  CHECK(done.error().kind == ErrorKind::Device);
  CHECK(done.error().message.find("the file ends there") != std::string::npos);
  CHECK(done.error().message.find(folder.path.string()) != std::string::npos);
}
