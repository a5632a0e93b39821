#include "core/base/read_file.hpp"

#include <sys/stat.h>

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
             ContainsSubstring("/dev/zero: it is longer than 1048576 bytes"));
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
}

}  // namespace lockstep
