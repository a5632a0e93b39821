#include "core/base/new_file.hpp"

#include <sys/stat.h>

#include <filesystem>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

void write_new(const std::string& path, const std::string& bytes) {
  NewFile file(path);
  write_bytes(file.temporary(), bytes);
  const Result<void> done = file.put_in_place();
  INFO((done ? "" : to_string(done.error())));
  CHECK(done.ok());
}

std::ptrdiff_t files_in(const TemporaryFolder& folder) {
  return std::distance(fs::directory_iterator(folder.path), fs::directory_iterator());
}

TEST_CASE("a file that was not put in place leaves what was there, and nothing beside it",
          "[core][base]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a", "before");
  {
    const NewFile file(folder / "a");
    write_bytes(file.temporary(), "half");
  }
  CHECK(read_bytes(folder / "a") == "before");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("a link stays a link, and the file behind it is replaced", "[core][base]") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path / "kept");
  write_bytes(folder / "kept/a", "before");
  fs::create_symlink("kept/a", folder.path / "a");
  write_new(folder / "a", "after");
  CHECK(fs::is_symlink(folder.path / "a"));
  CHECK(read_bytes(folder / "kept/a") == "after");
}

TEST_CASE("a file that is replaced keeps who may read it", "[core][base]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a", "before");
  fs::permissions(folder.path / "a", fs::perms::owner_read | fs::perms::owner_write);
  write_new(folder / "a", "after");
  CHECK(fs::status(folder.path / "a").permissions() ==
        (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("a device is written into, not replaced", "[core][base]") {
  CHECK(NewFile("/dev/null").temporary() == "/dev/null");
  write_new("/dev/null", "gone");
  CHECK(fs::is_character_file("/dev/null"));
  const TemporaryFolder folder;
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(NewFile(folder / "pipe").temporary() == folder / "pipe");
  CHECK(fs::is_fifo(folder / "pipe"));
}

TEST_CASE("a folder is not replaced by a file, and the error names it", "[core][base]") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path / "a");
  {
    NewFile file(folder / "a");
    write_bytes(file.temporary(), "bytes");
    const Result<void> done = file.put_in_place();
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().message == "cannot write " + (folder / "a") + ": Is a directory");
  }
  CHECK(files_in(folder) == 1);
}

}  // namespace
}  // namespace lockstep
