#include "core/data/digest.hpp"

#include <filesystem>
#include <numeric>

#include "core/data/token_files.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

/// A token shard of `count` tokens 0, 1, 2, …
std::string shard(std::size_t count) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = static_cast<std::int32_t>(count);
  std::vector<std::uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size() * 4);
  bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2);
  return bytes;
}

Samples tokens_of(int length) {
  Samples samples;
  samples.kind = SampleKind::Tokens;
  samples.length = length;
  samples.classes = 256;
  return samples;
}

}  // namespace

TEST_CASE("a digest tells other data, and not where they lie", "[core][data]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.txt", "some words to train on");
  std::filesystem::create_directories(folder / "elsewhere");
  write_bytes(folder / "elsewhere/b.txt", "some words to train on");
  const auto digest = [](const std::string& path) {
    const auto made = dataset_digest(tokens_of(8), path);
    return made ? *made : made.error().message;
  };
  const std::string first = digest(folder / "a.txt");
  CHECK(first.starts_with("22 tokens, "));
  CHECK(digest(folder / "elsewhere") == first);
  // What a run leaves beside the text it reads is no part of the data.
  std::filesystem::create_directories(folder / "elsewhere/runs/a");
  write_bytes(folder / "elsewhere/runs/a/metrics.jsonl", "{}");
  write_bytes(folder / "elsewhere/.lock", "x");
  CHECK(digest(folder / "elsewhere") == first);
  write_bytes(folder / "a.txt", "some words to train in");
  CHECK(digest(folder / "a.txt") != first);
  CHECK(digest("") == "synthetic");
  CHECK(*dataset_digest(Samples{}, "") == "none");
  CHECK_THAT(digest(folder / "missing"), ContainsSubstring("missing"));
}

TEST_CASE("a shard that is cut while it is read is an error that names it", "[core][data]") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.bin";
  write_bytes(path, shard(10000));
  const auto files = open_token_files(path);
  REQUIRE(files.ok());
  CHECK((*files)->largest_token() == 9999);
  std::vector<std::int32_t> tokens(100);
  (*files)->read(9900, tokens);
  CHECK(tokens[99] == 9999);
  std::filesystem::resize_file(path, 4096);
  std::string message;
  try {
    (*files)->read(9900, tokens);
  } catch (const std::runtime_error& fault) {
    message = fault.what();
  }
  CHECK_THAT(message, ContainsSubstring("a.bin' has become shorter while it was read"));
  (*files)->read(0, tokens);  // what is left can be read
  CHECK(tokens[99] == 99);
}

}  // namespace lockstep
