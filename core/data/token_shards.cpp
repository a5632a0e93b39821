#include "core/data/token_shards.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

Error cannot_write(const std::string& path) {
  return Error{ErrorKind::Device, "cannot write '" + path + "': is the disk full?", std::nullopt};
}

template <class T>
void write_as(std::ofstream& file, std::span<const std::int32_t> tokens) {
  std::vector<T> narrow(tokens.size());
  std::transform(tokens.begin(), tokens.end(), narrow.begin(),
                 [](std::int32_t token) { return static_cast<T>(token); });
  file.write(reinterpret_cast<const char*>(narrow.data()),
             static_cast<std::streamsize>(narrow.size() * sizeof(T)));
}

}  // namespace

ShardWriter::ShardWriter(std::string path, ShardFormat format)
    : path_(std::move(path)), partial_(path_ + ".new"), format_(format) {
  file_.open(partial_, std::ios::binary | std::ios::trunc);
  const std::vector<char> header(kShardHeaderBytes);
  file_.write(header.data(), static_cast<std::streamsize>(header.size()));
}

Result<ShardWriter> ShardWriter::create(const std::string& path, std::size_t token_bytes) {
  ShardWriter writer(path, kShardFormats.at(token_bytes == 2 ? 0 : 1));
  if (!writer.file_) return cannot_write(path);
  return writer;
}

ShardWriter::ShardWriter(ShardWriter&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, {})),
      format_(other.format_),
      file_(std::move(other.file_)),
      size_(other.size_) {}

ShardWriter::~ShardWriter() {
  if (partial_.empty()) return;
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

Result<void> ShardWriter::append(std::span<const std::int32_t> tokens) {
  const std::int64_t most = format_.token_bytes == 2 ? std::numeric_limits<std::uint16_t>::max()
                                                     : std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t token : tokens) {
    if (token < 0 || token > most) {
      return invalid("token " + std::to_string(token) + " has no place in the " +
                     std::to_string(format_.token_bytes) + " bytes of a token of '" + path_ + "'");
    }
  }
  size_ += static_cast<std::int64_t>(tokens.size());
  if (size_ > std::numeric_limits<std::int32_t>::max()) {
    return invalid("'" + path_ + "' would have more than 2147483647 tokens, which a shard cannot " +
                   "say: make several of fewer texts, in one folder");
  }
  if (format_.token_bytes == 2) {
    write_as<std::uint16_t>(file_, tokens);
  } else {
    write_as<std::uint32_t>(file_, tokens);
  }
  if (!file_) return cannot_write(path_);
  return {};
}

Result<void> ShardWriter::finish() {
  const std::array<std::int32_t, 3> head = {format_.magic, format_.version,
                                            static_cast<std::int32_t>(size_)};
  file_.seekp(0);
  file_.write(reinterpret_cast<const char*>(head.data()), sizeof head);
  file_.close();
  if (!file_) return cannot_write(path_);
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (error) return cannot_write(path_);
  partial_.clear();
  return {};
}

}  // namespace lockstep
