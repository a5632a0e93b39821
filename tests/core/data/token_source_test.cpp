#include "core/data/token_source.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/data/permutation.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for one test, removed with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "lockstep-data-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  std::string write(const std::string& name, const std::string& content) const {
    const fs::path file = path_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file.string();
  }
  fs::path path() const { return path_; }

 private:
  fs::path path_;
};

std::string shard(const std::vector<std::uint16_t>& tokens, std::int32_t magic = 20240520,
                  std::int32_t announced = -1) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = 1;
  header[2] = announced < 0 ? static_cast<std::int32_t>(tokens.size()) : announced;
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size() * 4);
  bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2);
  return bytes;
}

struct Sample {
  std::vector<std::int32_t> tokens, targets;
  bool operator==(const Sample&) const = default;
};
Sample sample_of(const TokenSource& source, std::int64_t index, int seq_len) {
  Sample s{std::vector<std::int32_t>(static_cast<std::size_t>(seq_len)),
           std::vector<std::int32_t>(static_cast<std::size_t>(seq_len))};
  source.fill(index, s.tokens, s.targets);
  return s;
}

std::string error_of(const std::string& path, int seq_len = 4, int vocab = 256) {
  const auto source = open_token_source(path, seq_len, vocab, 1);
  REQUIRE_FALSE(source.ok());
  CHECK(source.error().kind == ErrorKind::InvalidSpec);
  return source.error().message;
}

}  // namespace

TEST_CASE("a permutation hits every index once whatever the size", "[core][data]") {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 7, 16, 17, 64, 100, 1000, 4097}) {
    for (const std::uint64_t key : {0U, 1U, 12345U}) {
      const Permutation permutation(size, key);
      std::vector<int> seen(static_cast<std::size_t>(size), 0);
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t to = permutation(i);
        REQUIRE(to >= 0);
        REQUIRE(to < size);
        ++seen[to];
      }
      CHECK(seen == std::vector<int>(static_cast<std::size_t>(size), 1));
    }
  }
}

TEST_CASE("a permutation moves an index anywhere with equal frequency", "[core][data]") {
  // Position of index 0 over 6,000 keys in a domain of 6: expected 1,000 each, standard deviation
  // sqrt(6000 · 1/6 · 5/6) = 29; five of them is a one-in-a-million bound.
  std::map<std::int64_t, int> count;
  for (std::uint64_t key = 0; key < 6000; ++key) ++count[Permutation(6, key)(0)];
  for (const auto& [position, times] : count) CHECK(std::abs(times - 1000) < 145);
  CHECK(count.size() == 6);
}

TEST_CASE("text is one token per byte and every token but the first is a target once per epoch",
          "[core][data]") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 101; ++i) text += static_cast<char>(i + 1);
  const auto source = open_token_source(folder.write("a.txt", text), 4, 256, 7);
  REQUIRE(source.ok());
  CHECK((*source)->num_tokens() == 101);
  CHECK((*source)->vocab() == 102);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::multiset<std::int32_t> targets;
    for (int i = 0; i < 25; ++i) {
      const Sample s = sample_of(**source, epoch * 25 + i, 4);
      for (std::size_t t = 0; t < 4; ++t) CHECK(s.targets[t] == s.tokens[t] + 1);
      targets.insert(s.targets.begin(), s.targets.end());
    }
    std::multiset<std::int32_t> expected;
    for (int i = 2; i <= 101; ++i) expected.insert(i);
    CHECK(targets == expected);
  }
}

TEST_CASE("the order of samples differs between epochs and seeds but not between openings",
          "[core][data]") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 2001; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 26);
  const std::string path = folder.write("a.txt", text);
  const auto first = open_token_source(path, 4, 256, 7);
  const auto again = open_token_source(path, 4, 256, 7);
  const auto other = open_token_source(path, 4, 256, 8);
  const std::int64_t windows = 500;
  int same_epoch = 0, same_seed = 0;
  for (std::int64_t i = 0; i < windows; ++i) {
    const Sample s = sample_of(**first, i, 4);
    CHECK(s == sample_of(**again, i, 4));
    same_epoch += s == sample_of(**first, windows + i, 4) ? 1 : 0;
    same_seed += s == sample_of(**other, i, 4) ? 1 : 0;
  }
  // A random reshuffle keeps one window in its place on average.
  CHECK(same_epoch < 25);
  CHECK(same_seed < 25);
}

TEST_CASE("a folder is read in path order without hidden, built, linked or binary files",
          "[core][data]") {
  const TemporaryFolder folder;
  folder.write("b.txt", "bbbb");
  folder.write("a/z.txt", "aaaa");
  folder.write("c/latin1.txt", "caf\xe9");
  folder.write("c/binary.o", std::string("x\0y", 3));
  folder.write(".git/config", "hidden");
  folder.write(".hidden", "hidden");
  folder.write("build/out.txt", "built");
  folder.write("d/runs/report.txt", "built");
  folder.write("e.txt", "caf\xc3\xa9");
  fs::create_symlink(folder.path() / "b.txt", folder.path() / "f.txt");
  fs::create_directory_symlink(folder.path() / "a", folder.path() / "g");
  const std::string expected = "aaaabbbbcaf\xc3\xa9";
  const auto source = open_token_source(folder.path().string(), 12, 256, 1);
  REQUIRE(source.ok());
  REQUIRE((*source)->num_tokens() == static_cast<std::int64_t>(expected.size()));
  const Sample s = sample_of(**source, 0, 12);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(s.tokens[i] == static_cast<unsigned char>(expected[i]));
    CHECK(s.targets[i] == static_cast<unsigned char>(expected[i + 1]));
  }
}

TEST_CASE("llm.c shards come back token for token, across the border of two files",
          "[core][data]") {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> all;
  for (int i = 0; i < 61; ++i) all.push_back(static_cast<std::uint16_t>(50256 - i));
  folder.write("train_000.bin", shard({all.begin(), all.begin() + 23}));
  folder.write("train_001.bin", shard({}));
  folder.write("train_002.bin", shard({all.begin() + 23, all.end()}));
  folder.write("README.md", "how these shards were made");
  const auto source = open_token_source(folder.path().string(), 60, 50257, 3);
  REQUIRE(source.ok());
  CHECK((*source)->num_tokens() == 61);
  CHECK((*source)->vocab() == 50257);
  const Sample s = sample_of(**source, 0, 60);
  CHECK(s.tokens == std::vector<std::int32_t>(all.begin(), all.end() - 1));
  CHECK(s.targets == std::vector<std::int32_t>(all.begin() + 1, all.end()));
}

TEST_CASE("the synthetic stream is deterministic, in range and mostly predictable",
          "[core][data]") {
  const auto source = open_token_source("", 64, 50, 9);
  REQUIRE(source.ok());
  const auto again = open_token_source("", 64, 50, 9);
  std::map<std::int32_t, std::map<std::int32_t, int>> successors;
  for (std::int64_t i = 0; i < 200; ++i) {
    const Sample s = sample_of(**source, i, 64);
    CHECK(s == sample_of(**again, i, 64));
    for (std::size_t t = 0; t < 64; ++t) {
      REQUIRE(s.tokens[t] >= 0);
      REQUIRE(s.tokens[t] < 50);
      if (t > 0) REQUIRE(s.tokens[t] == s.targets[t - 1]);
      ++successors[s.tokens[t]][s.targets[t]];
    }
  }
  // Seven of eight steps follow the cycle: every token has one successor in well over 3/4 of them.
  for (const auto& [token, next] : successors) {
    int total = 0, most = 0;
    for (const auto& [to, count] : next) {
      total += count;
      most = std::max(most, count);
    }
    CHECK(most > total * 3 / 4);
  }
}

TEST_CASE("every fault of a dataset is named", "[core][data]") {
  const TemporaryFolder folder;
  const std::string missing = (folder.path() / "no.txt").string();
  CHECK_THAT(error_of(missing), ContainsSubstring("no.txt' does not exist"));
  CHECK_THAT(error_of(folder.path().string()), ContainsSubstring("holds no text"));
  CHECK_THAT(error_of(folder.write("nul.txt", std::string("abc\0def", 7))),
             ContainsSubstring("NUL"));
  CHECK_THAT(error_of(folder.write("short.txt", "abcd")),
             ContainsSubstring("has 4 tokens, a sequence of seq_len=4 needs 5"));
  CHECK_THAT(error_of(folder.write("ascii.txt", "abcdefgh"), 4, 100),
             ContainsSubstring("holds token 104, the model's vocab is 100"));
  CHECK_THAT(error_of(folder.write("magic.bin", shard({1, 2, 3, 4, 5, 6}, 20240326))),
             ContainsSubstring("magic 20240326"));
  CHECK_THAT(error_of(folder.write("cut.bin", shard({1, 2, 3, 4, 5, 6}, 20240520, 7))),
             ContainsSubstring("announces 7 tokens but holds 6"));
  CHECK_THAT(error_of(folder.write("odd.bin", shard({1, 2, 3, 4, 5, 6}) + "x")),
             ContainsSubstring("announces 6 tokens but holds 6 and 1 of the 2 bytes of another"));
  CHECK_THAT(error_of(folder.write("tiny.bin", "abc")), ContainsSubstring("has 3 bytes"));
}

TEST_CASE("a folder of shards is the same with a slash behind its name", "[core][data]") {
  const TemporaryFolder folder;
  folder.write("a.bin", shard({1, 2, 3}));
  folder.write("b.bin", shard({4, 5, 6, 7}));
  folder.write("notes.txt", "what the shards were made of, which is no data");
  const auto plain = open_token_source(folder.path().string(), 2, 256, 1);
  const auto slash = open_token_source(folder.path().string() + "/", 2, 256, 1);
  REQUIRE((plain.ok() && slash.ok()));
  CHECK((*plain)->num_tokens() == 7);
  CHECK((*slash)->num_tokens() == 7);
}

TEST_CASE("a folder may have more shards than a process may have open files", "[core][data]") {
  const TemporaryFolder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  constexpr int kShards = 300;
  rlimit narrow = before;
  narrow.rlim_cur = 64;
  for (int i = 0; i < kShards; ++i) {
    const auto token = static_cast<std::uint16_t>(i);
    folder.write("shard-" + std::to_string(1000 + i) + ".bin", shard({token, token}));
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &narrow) == 0);
  const auto source = open_token_source(folder.path().string(), 3, 512, 1);
  std::vector<std::int32_t> seen;
  if (source) {
    for (int i = 0; i < 199; ++i) {
      for (const std::int32_t token : sample_of(**source, i, 3).tokens) seen.push_back(token);
    }
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  if (!source) FAIL(to_string(source.error()));
  CHECK((*source)->num_tokens() == 2 * kShards);
  // 199 windows of 3 tokens are all but the last 3, each once.
  std::sort(seen.begin(), seen.end());
  REQUIRE(seen.size() == 597);
  for (std::size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == static_cast<int>(i / 2));
  // A file of another name that takes its place is noticed.
  fs::rename(folder.path() / "shard-1000.bin", folder.path() / "shard-1000.old");
  folder.write("shard-1000.bin", shard({0, 0}));
  std::string fault;
  for (int i = 0; i < 199 && fault.empty(); ++i) {
    try {
      sample_of(**source, i, 3);
    } catch (const std::runtime_error& error) {
      fault = error.what();
    }
  }
  CHECK_THAT(fault, ContainsSubstring("shard-1000.bin' is another file than when the run began"));
}

TEST_CASE("tokens that come into a shard while it is read are an error that names it",
          "[core][data]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("tokens.bin", shard({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  const auto source = open_token_source(path, 4, 256, 1);
  REQUIRE(source.ok());
  std::ofstream(path, std::ios::binary) << shard({1, 2, 3, 999, 5, 6, 7, 999, 9});
  try {
    sample_of(**source, 0, 4);
    FAIL("token 999 indexes a table of 256");
  } catch (const std::runtime_error& error) {
    CHECK_THAT(error.what(), ContainsSubstring("tokens.bin' has changed while it was read") &&
                                 ContainsSubstring("token 999 now, and the largest was 9"));
  }
}

}  // namespace lockstep
