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
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/file_fault.hpp"
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

/// A file that is read at any place; closed with its object.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), error_(file_ < 0 ? errno : 0) {}
  OpenFile(OpenFile&& other) noexcept
      : file_(std::exchange(other.file_, -1)), error_(other.error_) {}
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  bool is_open() const { return file_ >= 0; }
  int number() const { return file_; }
  int error() const { return error_; }  // errno, if it is not open

 private:
  int file_ = -1, error_ = 0;
};

/// The tokens of one shard. They are read as they are needed and not mapped into memory: a file
/// that becomes shorter while it is mapped ends the process.
class Shard {
 public:
  /// `stays_open`: otherwise the file is opened for each read, because a process may have some
  /// 1,000 open files and a data set has more shards. It must then be the same file each time.
  static Result<Shard> open(const fs::path& path, bool stays_open) {
    if (is_no_file(path.string())) {
      return invalid("cannot read '" + path.string() +
                     "': it is a pipe, a socket or a device, not a file");
    }
    Shard shard(path.string());
    OpenFile file(shard.path_);
    if (!file.is_open() || ::fstat(file.number(), &shard.status_) != 0) {
      const int error = file.is_open() ? errno : file.error();
      return Error{kind_of_file_fault(error),
                   "cannot read '" + path.string() + "': " + std::strerror(error), std::nullopt};
    }
    if (stays_open) shard.file_.emplace(std::move(file));
    return shard;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(status_.st_size); }
  /// Throws std::runtime_error if the file has become shorter, is another, or cannot be read.
  void read(std::size_t at, void* to, std::size_t bytes) const {
    if (file_) return read(*file_, at, to, bytes);
    const OpenFile file(path_);
    struct stat now {};
    if (!file.is_open()) throw fault(std::string("cannot be read: ") + std::strerror(file.error()));
    if (::fstat(file.number(), &now) != 0 || now.st_ino != status_.st_ino ||
        now.st_dev != status_.st_dev) {
      throw fault("is another file than when the run began");
    }
    read(file, at, to, bytes);
  }
  void set_token_bytes(std::size_t bytes) { token_bytes_ = bytes; }
  void read_tokens(std::int64_t begin, std::span<std::int32_t> to) const {
    const std::size_t at = kShardHeaderBytes + static_cast<std::size_t>(begin) * token_bytes_;
    if (token_bytes_ == sizeof(std::int32_t)) return read(at, to.data(), to.size_bytes());
    std::vector<std::uint16_t> narrow(to.size());
    read(at, narrow.data(), narrow.size() * sizeof(std::uint16_t));
    std::copy(narrow.begin(), narrow.end(), to.begin());
  }
  std::runtime_error fault(const std::string& what) const {
    return std::runtime_error("token shard '" + path_ + "' " + what);
  }

 private:
  explicit Shard(std::string path) : path_(std::move(path)) {}
  void read(const OpenFile& file, std::size_t at, void* to, std::size_t bytes) const {
    auto* next = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = ::pread(file.number(), next, bytes, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got == 0) throw fault("has become shorter while it was read");
      if (got < 0) throw fault(std::string("cannot be read: ") + std::strerror(errno));
      next += got;
      at += static_cast<std::size_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
  }
  std::string path_;
  std::optional<OpenFile> file_;
  struct stat status_ {};
  std::size_t token_bytes_ = sizeof(std::uint16_t);
};

class ShardTokens final : public TokenFiles {
 public:
  static Result<std::unique_ptr<TokenFiles>> open(const std::vector<fs::path>& paths) {
    auto shards = std::make_unique<ShardTokens>();
    try {
      for (const fs::path& path : paths) {
        if (auto added = shards->add(path, paths.size() <= kMostOpen); !added) return added.error();
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
      const auto part = out.subspan(done, count);
      shards_[shard].read_tokens(from, part);
      check(shards_[shard], part);
      done += count;
    }
  }

 private:
  static constexpr std::size_t kMostOpen = 256;  // files; 1,024 is the usual limit of a process

  /// Kernels index tables with tokens, so a shard that somebody else writes meanwhile ends the run.
  void check(const Shard& shard, std::span<const std::int32_t> tokens) const {
    const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
    if (tokens.empty() || (*least >= 0 && *most <= largest_)) return;
    const auto odd = static_cast<std::uint32_t>(*least < 0 ? *least : *most);
    throw shard.fault("has changed while it was read: it holds token " + std::to_string(odd) +
                      " now, and the largest was " + std::to_string(largest_) +
                      " when the run began");
  }

  Result<void> add(const fs::path& path, bool stays_open) {
    auto shard = Shard::open(path, stays_open);
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
    const std::size_t rest = (bytes - kShardHeaderBytes) % format->token_bytes;
    if (header[2] < 0 || held != static_cast<std::size_t>(header[2]) || rest != 0) {
      return invalid("token shard '" + path.string() + "' announces " + std::to_string(header[2]) +
                     " tokens but holds " + std::to_string(held) +
                     (rest == 0 ? ""
                                : " and " + std::to_string(rest) + " of the " +
                                      std::to_string(format->token_bytes) + " bytes of another"));
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
  fs::path folder(path);
  if (!folder.has_filename()) folder = folder.parent_path();  // "tokens/" is "tokens"
  auto files = text_files(folder);
  if (!files) return files.error();
  std::vector<fs::path> shards;
  std::copy_if(files->begin(), files->end(), std::back_inserter(shards), [&](const fs::path& file) {
    return is_shard(file) && file.parent_path() == folder;
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
