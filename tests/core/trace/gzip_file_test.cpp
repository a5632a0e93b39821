#include "core/trace/gzip_file.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {

TEST_CASE("a file that grows beyond all measure when it is decompressed is not read to its end",
          "[core][trace]") {
  const TemporaryFolder folder;
  const std::string path = folder / "bomb.json.gz";
  constexpr std::size_t kBlock = 1 << 20, kBlocks = 300;
  {
    GzipWriter writer(path, true);
    const std::string spaces(kBlock, ' ');
    for (std::size_t i = 0; i < kBlocks; ++i) writer.text(spaces);
    REQUIRE(writer.commit().ok());
  }
  GzipReader reader(path);
  std::string part(kBlock, '\0');
  std::size_t total = 0;
  while (const std::size_t n = reader.read(part.data(), part.size())) total += n;
  CHECK(total < 260'000'000);
  CHECK_THAT(reader.failure(), ContainsSubstring("grows to more than 100 times its size"));
}

}  // namespace lockstep
