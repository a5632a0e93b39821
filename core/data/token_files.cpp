#include "core/data/token_files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// ---------------------------------------------------------------- text

class TextTokens final : public TokenFiles {
 public:
  explicit TextTokens(std::string text)
      : text_(std::move(text)),
        largest_(text_.empty() ? 0
                               : *std::max_element(text_.begin(), text_.end(), [](char a, char b) {
                                   return byte(a) < byte(b);
                                 })) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(text_.size()); }
  int largest_token() const override { return byte(largest_); }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    std::transform(text_.begin() + begin,
                   text_.begin() + begin + static_cast<std::ptrdiff_t>(out.size()), out.begin(),
                   byte);
  }

 private:
  static unsigned char byte(char c) { return static_cast<unsigned char>(c); }
  std::string text_;
  char largest_;
};

/// Whether `s` is well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above
/// U+10FFFF) without NUL.
bool is_text(std::string_view s) {
  for (std::size_t i = 0; i < s.size();) {
    const auto at = [&](std::size_t k) {
      return i + k < s.size() ? static_cast<unsigned char>(s[i + k]) : 0U;
    };
    const unsigned lead = at(0);
    if (lead == 0) return false;
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((at(k) & 0xc0U) != 0x80) return false;
    }
    const unsigned second = at(1);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += length;
  }
  return true;
}

Result<std::string> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.good() && !in.eof()) return invalid("cannot read '" + path.string() + "'");
  return text;
}

// ---------------------------------------------------------------- llm.c shards

constexpr std::int32_t kShardMagic = 20240520;
constexpr std::int32_t kShardVersion = 1;
constexpr std::size_t kShardHeaderBytes = 256 * sizeof(std::int32_t);

/// A read-only memory map of a whole file.
class MappedFile {
 public:
  static Result<MappedFile> open(const fs::path& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return invalid("cannot read '" + path.string() + "': " + std::strerror(errno));
    struct stat status {};
    MappedFile map;
    if (::fstat(file, &status) == 0 && status.st_size > 0) {
      map.size_ = static_cast<std::size_t>(status.st_size);
      map.data_ = ::mmap(nullptr, map.size_, PROT_READ, MAP_PRIVATE, file, 0);
    }
    ::close(file);
    if (map.data_ == MAP_FAILED) {
      map.data_ = nullptr;
      return invalid("cannot map '" + path.string() + "': " + std::strerror(errno));
    }
    return map;
  }
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  std::span<const std::byte> bytes() const { return {static_cast<std::byte*>(data_), size_}; }

 private:
  MappedFile() = default;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

class ShardTokens final : public TokenFiles {
 public:
  static Result<std::unique_ptr<TokenFiles>> open(const std::vector<fs::path>& paths) {
    auto shards = std::make_unique<ShardTokens>();
    for (const fs::path& path : paths) {
      if (auto added = shards->add(path); !added) return added.error();
    }
    return std::unique_ptr<TokenFiles>(std::move(shards));
  }
  std::int64_t size() const override { return begins_.back(); }
  int largest_token() const override { return largest_; }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    auto shard = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) -
                                          begins_.begin() - 1);
    for (std::size_t done = 0; done < out.size(); ++shard) {
      const std::int64_t from = begin + static_cast<std::int64_t>(done) - begins_[shard];
      const auto count = std::min(
          out.size() - done, static_cast<std::size_t>(begins_[shard + 1] - begins_[shard] - from));
      const std::uint16_t* tokens = tokens_of(shard) + from;
      std::copy(tokens, tokens + count, out.begin() + static_cast<std::ptrdiff_t>(done));
      done += count;
    }
  }

 private:
  Result<void> add(const fs::path& path) {
    auto map = MappedFile::open(path);
    if (!map) return map.error();
    const std::span<const std::byte> bytes = map->bytes();
    if (bytes.size() < kShardHeaderBytes) {
      return invalid("token shard '" + path.string() + "' has " + std::to_string(bytes.size()) +
                     " bytes, its header alone takes " + std::to_string(kShardHeaderBytes));
    }
    std::int32_t header[3];
    std::memcpy(header, bytes.data(), sizeof header);
    if (header[0] != kShardMagic || header[1] != kShardVersion) {
      return invalid("token shard '" + path.string() + "' has magic " + std::to_string(header[0]) +
                     " and version " + std::to_string(header[1]) + ", expected " +
                     std::to_string(kShardMagic) + " and " + std::to_string(kShardVersion));
    }
    const std::size_t held = (bytes.size() - kShardHeaderBytes) / sizeof(std::uint16_t);
    if (header[2] < 0 || held != static_cast<std::size_t>(header[2]) ||
        (bytes.size() - kShardHeaderBytes) % sizeof(std::uint16_t) != 0) {
      return invalid("token shard '" + path.string() + "' announces " + std::to_string(header[2]) +
                     " tokens but holds " + std::to_string(held));
    }
    maps_.push_back(std::move(*map));
    begins_.push_back(begins_.back() + header[2]);
    const std::uint16_t* tokens = tokens_of(maps_.size() - 1);
    if (held > 0) largest_ = std::max<int>(largest_, *std::max_element(tokens, tokens + held));
    return {};
  }
  const std::uint16_t* tokens_of(std::size_t shard) const {
    return reinterpret_cast<const std::uint16_t*>(maps_[shard].bytes().data() + kShardHeaderBytes);
  }

  std::vector<MappedFile> maps_;
  std::vector<std::int64_t> begins_{0};  // first token of each shard, and the end of the last
  int largest_ = 0;
};

// ---------------------------------------------------------------- folders

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }
bool is_build_output(const fs::path& path) {
  return path.filename() == "build" || path.filename() == "runs";
}

Result<std::vector<fs::path>> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error), end;
  while (!error && it != end) {
    const fs::file_status status = it->symlink_status(error);
    if (error) break;
    if (fs::is_directory(status)) {
      if (is_hidden(it->path()) || is_build_output(it->path())) it.disable_recursion_pending();
    } else if (fs::is_regular_file(status) && !is_hidden(it->path())) {
      files.push_back(it->path());
    }
    it.increment(error);
  }
  if (error) return invalid("cannot list '" + folder.string() + "': " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_shard(const fs::path& path) { return path.extension() == ".bin"; }

}  // namespace

Result<std::unique_ptr<TokenFiles>> open_token_files(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return invalid("dataset '" + path + "' does not exist");
  if (!fs::is_directory(status)) {
    if (is_shard(path)) return ShardTokens::open({path});
    auto text = read_file(path);
    if (!text) return text.error();
    if (text->find('\0') != std::string::npos) {
      return invalid("dataset '" + path + "' is not text: it holds a NUL byte");
    }
    return std::unique_ptr<TokenFiles>(std::make_unique<TextTokens>(std::move(*text)));
  }
  auto files = files_below(path);
  if (!files) return files.error();
  std::vector<fs::path> shards;
  std::copy_if(files->begin(), files->end(), std::back_inserter(shards), [&](const fs::path& file) {
    return is_shard(file) && file.parent_path() == fs::path(path);
  });
  if (!shards.empty()) return ShardTokens::open(shards);
  std::string all;
  for (const fs::path& file : *files) {
    auto text = read_file(file);
    if (!text) return text.error();
    if (is_text(*text)) all += *text;
  }
  if (all.empty()) return invalid("dataset folder '" + path + "' holds no text");
  return std::unique_ptr<TokenFiles>(std::make_unique<TextTokens>(std::move(all)));
}

}  // namespace lockstep
