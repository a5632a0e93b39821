#include "core/base/read_file.hpp"

#include <sys/stat.h>

#include <filesystem>

#include "core/base/json_depth.hpp"
#include "core/base/new_file.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {

TEST_CASE("a file is read as it is, up to a limit", "[core][base]") {
  const TemporaryFolder folder;
  for (const std::size_t length : {0U, 1U, 65535U, 65536U, 65537U, 200000U}) {
    std::string bytes(length, '\0');
    for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>(i * 31 % 251);
    write_bytes(folder / "file", bytes);
    const auto limit = static_cast<std::int64_t>(length);
    const auto read = read_file(folder / "file", limit);
    REQUIRE(read.ok());
    CHECK((*read == bytes));
    if (length == 0) continue;
    const auto longer = read_file(folder / "file", limit - 1);
    REQUIRE_FALSE(longer.ok());
    CHECK(longer.error().message == "cannot read " + folder / "file" + ": it is longer than " +
                                        std::to_string(length - 1) + " bytes");
  }
}

TEST_CASE("a file that has no end, no name or no bytes is refused with the reason",
          "[core][base]") {
  const TemporaryFolder folder;
  CHECK_THAT(read_file("/dev/zero", 1 << 20).error().message,
             ContainsSubstring("/dev/zero: it is a pipe, a socket or a device"));
  write_bytes(folder / "long", std::string(2 << 20, 'x'));
  CHECK_THAT(read_file(folder / "long", 1 << 20).error().message,
             ContainsSubstring("long: it is longer than 1048576 bytes"));
  CHECK_THAT(read_file(folder / "missing").error().message,
             ContainsSubstring("missing: No such file or directory"));
  CHECK_THAT(read_file(folder.path.string()).error().message,
             ContainsSubstring(": Is a directory"));
}

TEST_CASE("a pipe in the place of a file is refused instead of waited for", "[core][base]") {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(is_no_file(pipe));
  CHECK_THAT(read_file(pipe).error().message, ContainsSubstring("it is a pipe"));
  CHECK(!open_file(pipe));
  CHECK(!is_no_file(folder / "nothing"));
  CHECK(!is_no_file(folder.path.string()));
  CHECK(!is_no_file("/dev/stdin"));  // a shell's own pipe is what the user means
  CHECK(is_no_file("/dev/../dev/zero"));
  CHECK(is_no_file("/dev/.." + pipe));
}

TEST_CASE("what a run keeps in its folder is written through no link and into no pipe",
          "[core][base]") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  write_bytes(folder / "victim", "whole");
  fs::create_symlink("victim", folder.path / "link");
  fs::create_symlink("nothing", folder.path / "dangling");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const char* name : {"link", "dangling", "pipe"}) {
    INFO(name);
    CHECK(!open_own_file(folder / name, Begin::AtEnd));
    CHECK(!open_own_file(folder / name, Begin::Empty));
    {
      NewFile file(folder / name, Links::Replaced);
      // A link that was put where the new file is begun is not followed either.
      CHECK_FALSE(fs::exists(file.temporary()));
      write_bytes(file.temporary(), "new");
      CHECK(file.put_in_place().ok());
    }
    CHECK(fs::is_regular_file(fs::symlink_status(folder / name)));
    CHECK(read_bytes(folder / name) == "new");
  }
  CHECK(read_bytes(folder / "victim") == "whole");
  CHECK_FALSE(fs::exists(folder / "nothing"));
  open_own_file(folder / "link", Begin::AtEnd) << "er";
  CHECK(read_bytes(folder / "link") == "newer");
  open_own_file(folder / "link", Begin::Empty) << "x";
  CHECK(read_bytes(folder / "link") == "x");
}

TEST_CASE("the depth of a JSON text is found without its parser", "[core][base]") {
  CHECK_FALSE(nests_too_deep(""));
  CHECK_FALSE(nests_too_deep(R"({"a": [[[{"b": "[[[[[[[["}]]]})", 5));
  CHECK(nests_too_deep(R"({"a": [[[{"b": [1]}]]]})", 5));
  CHECK_FALSE(nests_too_deep(R"(["\"[[[", "\\", []])", 2));
  CHECK(nests_too_deep(R"(["\\", [[]]])", 2));
  CHECK(nests_too_deep(std::string(kDeepestJson + 1, '[')));
  CHECK_FALSE(nests_too_deep("[" + std::string(1000, '"') + "]"));
  CHECK_FALSE(nests_too_deep("\""));
}

}  // namespace lockstep
