#include "core/data/token_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/read_file.hpp"
#include "core/base/result.hpp"
#include "core/data/token_shards.hpp"

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
  bool are_bytes() const override { return true; }
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

/// Training data may be as long as memory lasts.
constexpr std::int64_t kLongestData = std::numeric_limits<std::int64_t>::max();

// ---------------------------------------------------------------- llm.c shards

constexpr std::size_t kBlock = 1 << 20;  // tokens that are read at a time

/// The tokens of one shard. They are read as they are needed and not mapped into memory: a file
/// that becomes shorter while it is mapped ends the process.
class Shard {
 public:
  static Result<Shard> open(const fs::path& path) {
    if (is_no_file(path.string())) {
      return invalid("cannot read '" + path.string() +
                     "': it is a pipe, a socket or a device, not a file");
    }
    Shard shard(path.string(), ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (shard.file_ < 0 || ::fstat(shard.file_, &status) != 0) {
      return invalid("cannot read '" + path.string() + "': " + std::strerror(errno));
    }
    shard.bytes_ = static_cast<std::size_t>(status.st_size);
    return shard;
  }
  Shard(Shard&& other) noexcept
      : path_(std::move(other.path_)),
        file_(std::exchange(other.file_, -1)),
        bytes_(other.bytes_),
        token_bytes_(other.token_bytes_) {}
  Shard& operator=(Shard&&) = delete;
  ~Shard() {
    if (file_ >= 0) ::close(file_);
  }
  std::size_t bytes() const { return bytes_; }
  /// Throws std::runtime_error if the file has become shorter, or cannot be read any more.
  void read(std::size_t at, void* to, std::size_t bytes) const {
    auto* next = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = ::pread(file_, next, bytes, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        throw std::runtime_error("token shard '" + path_ + "' " +
                                 (got == 0
                                      ? "has become shorter while it was read"
                                      : std::string("cannot be read: ") + std::strerror(errno)));
      }
      next += got;
      at += static_cast<std::size_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
  }
  void set_token_bytes(std::size_t bytes) { token_bytes_ = bytes; }
  void read_tokens(std::int64_t begin, std::span<std::int32_t> to) const {
    const std::size_t at = kShardHeaderBytes + static_cast<std::size_t>(begin) * token_bytes_;
    if (token_bytes_ == sizeof(std::int32_t)) return read(at, to.data(), to.size_bytes());
    std::vector<std::uint16_t> narrow(to.size());
    read(at, narrow.data(), narrow.size() * sizeof(std::uint16_t));
    std::copy(narrow.begin(), narrow.end(), to.begin());
  }

 private:
  Shard(std::string path, int file) : path_(std::move(path)), file_(file) {}
  std::string path_;
  int file_ = -1;
  std::size_t bytes_ = 0, token_bytes_ = sizeof(std::uint16_t);
};

class ShardTokens final : public TokenFiles {
 public:
  static Result<std::unique_ptr<TokenFiles>> open(const std::vector<fs::path>& paths) {
    auto shards = std::make_unique<ShardTokens>();
    try {
      for (const fs::path& path : paths) {
        if (auto added = shards->add(path); !added) return added.error();
      }
    } catch (const std::runtime_error& fault) {
      return invalid(fault.what());
    }
    return std::unique_ptr<TokenFiles>(std::move(shards));
  }
  std::int64_t size() const override { return begins_.back(); }
  int largest_token() const override { return largest_; }
  bool are_bytes() const override { return false; }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    auto shard = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) -
                                          begins_.begin() - 1);
    for (std::size_t done = 0; done < out.size(); ++shard) {
      const std::int64_t from = begin + static_cast<std::int64_t>(done) - begins_[shard];
      const auto count = std::min(
          out.size() - done, static_cast<std::size_t>(begins_[shard + 1] - begins_[shard] - from));
      shards_[shard].read_tokens(from, out.subspan(done, count));
      done += count;
    }
  }

 private:
  Result<void> add(const fs::path& path) {
    auto shard = Shard::open(path);
    if (!shard) return shard.error();
    const std::size_t bytes = shard->bytes();
    if (bytes < kShardHeaderBytes) {
      return invalid("token shard '" + path.string() + "' has " + std::to_string(bytes) +
                     " bytes, its header alone takes " + std::to_string(kShardHeaderBytes));
    }
    std::int32_t header[3];
    shard->read(0, header, sizeof header);
    const auto format =
        std::find_if(kShardFormats.begin(), kShardFormats.end(), [&](const ShardFormat& known) {
          return known.magic == header[0] && known.version == header[1];
        });
    if (format == kShardFormats.end()) {
      return invalid("token shard '" + path.string() + "' has magic " + std::to_string(header[0]) +
                     " and version " + std::to_string(header[1]) +
                     ", expected 20240520 and 1 (uint16) or 20240801 and 7 (uint32); bare tokens, "
                     "as nanoGPT writes them, need a header before them: 256 numbers of int32, of "
                     "which these two and the number of tokens are the first three");
    }
    shard->set_token_bytes(format->token_bytes);
    const std::size_t held = (bytes - kShardHeaderBytes) / format->token_bytes;
    if (header[2] < 0 || held != static_cast<std::size_t>(header[2]) ||
        (bytes - kShardHeaderBytes) % format->token_bytes != 0) {
      return invalid("token shard '" + path.string() + "' announces " + std::to_string(header[2]) +
                     " tokens but holds " + std::to_string(held));
    }
    std::vector<std::int32_t> tokens;
    for (std::size_t at = 0; at < held; at += tokens.size()) {
      tokens.resize(std::min(kBlock, held - at));
      shard->read_tokens(static_cast<std::int64_t>(at), tokens);
      const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
      if (*least < 0) {
        return invalid("token shard '" + path.string() + "' holds token " +
                       std::to_string(static_cast<std::uint32_t>(*least)));
      }
      largest_ = std::max<int>(largest_, *most);
    }
    shards_.push_back(std::move(*shard));
    begins_.push_back(begins_.back() + header[2]);
    return {};
  }

  std::vector<Shard> shards_;
  std::vector<std::int64_t> begins_{0};  // first token of each shard, and the end of the last
  int largest_ = 0;
};

// ---------------------------------------------------------------- folders

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }
bool is_build_output(const fs::path& path) {
  return path.filename() == "build" || path.filename() == "runs";
}

bool is_shard(const fs::path& path) { return path.extension() == ".bin"; }

}  // namespace

Result<std::vector<fs::path>> text_files(const fs::path& folder) {
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

Result<std::unique_ptr<TokenFiles>> open_token_files(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return invalid("dataset '" + path + "' does not exist");
  if (!fs::is_directory(status)) {
    if (is_shard(path)) return ShardTokens::open({path});
    auto text = read_file(path, kLongestData);
    if (!text) return text.error();
    if (text->find('\0') != std::string::npos) {
      return invalid("dataset '" + path +
                     "' is not text: it holds a NUL byte (token shards end in " +
                     ".bin, and lockstep data makes them)");
    }
    return std::unique_ptr<TokenFiles>(std::make_unique<TextTokens>(std::move(*text)));
  }
  auto files = text_files(path);
  if (!files) return files.error();
  std::vector<fs::path> shards;
  std::copy_if(files->begin(), files->end(), std::back_inserter(shards), [&](const fs::path& file) {
    return is_shard(file) && file.parent_path() == fs::path(path);
  });
  if (!shards.empty()) return ShardTokens::open(shards);
  std::string all;
  for (const fs::path& file : *files) {
    auto text = read_file(file.string(), kLongestData);
    if (!text) return text.error();
    if (is_text(*text)) all += *text;
  }
  if (all.empty()) return invalid("dataset folder '" + path + "' holds no text");
  return std::unique_ptr<TokenFiles>(std::make_unique<TextTokens>(std::move(all)));
}

}  // namespace lockstep
