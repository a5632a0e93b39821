#include "core/base/read_file.hpp"

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

}  // namespace lockstep
