#include "core/trace/gzip_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/base/read_file.hpp"

namespace lockstep {

namespace {
constexpr std::size_t kReadBytes = 1 << 18;
// Traces become 10 to 40 times smaller. A file that grows more than that, to more than so many
// bytes, was made to fill memory.
constexpr double kMostGrowth = 100, kAnyGrowth = 256e6;
gzFile gz(void* file) { return static_cast<gzFile>(file); }
}  // namespace

GzipWriter::GzipWriter(const std::string& path, bool compress, Links links)
    : new_file_(path, links) {
  // Level 3 takes a third of the time of the default level for a tenth more bytes. "T" means no
  // compression.
  file_ = gzopen(new_file_.temporary().c_str(), compress ? "wb3" : "wbT");
  if (file_ != nullptr) gzbuffer(gz(file_), 1 << 17);
  buffer_.reserve(2 * kFlushBytes);
}

GzipWriter::~GzipWriter() {
  if (file_ != nullptr) gzclose(gz(file_));
}

void GzipWriter::flush() {
  if (file_ != nullptr && !failed_ && !buffer_.empty()) {
    const int written = gzwrite(gz(file_), buffer_.data(), static_cast<unsigned>(buffer_.size()));
    failed_ = written != static_cast<int>(buffer_.size());
  }
  buffer_.clear();
}

GzipWriter& GzipWriter::integer(std::int64_t value) {
  char digits[24];
  const auto result = std::to_chars(digits, digits + sizeof digits, value);
  return text({digits, static_cast<std::size_t>(result.ptr - digits)});
}

GzipWriter& GzipWriter::number(double value) {
  if (!std::isfinite(value)) return text("null");  // JSON has no such numbers
  char digits[40];
  const auto result = std::to_chars(digits, digits + sizeof digits, value);
  return text({digits, static_cast<std::size_t>(result.ptr - digits)});
}

GzipWriter& GzipWriter::microseconds(std::int64_t picoseconds) {
  if (picoseconds < 0) {
    text("-");
    picoseconds = -picoseconds;
  }
  integer(picoseconds / 1000000);
  char decimals[7] = {'.', '0', '0', '0', '0', '0', '0'};
  std::int64_t rest = picoseconds % 1000000;
  for (int i = 6; i >= 1; --i, rest /= 10) decimals[i] = static_cast<char>('0' + rest % 10);
  return text({decimals, sizeof decimals});
}

Result<void> GzipWriter::commit() {
  if (file_ == nullptr) return new_file_.failure();
  flush();
  const int closed = gzclose(gz(file_));
  file_ = nullptr;
  if (failed_ || closed != Z_OK) return new_file_.failure();
  return new_file_.put_in_place();
}

GzipReader::GzipReader(const std::string& path)
    : file_(is_no_file(path) ? nullptr : gzopen(path.c_str(), "rb")),
      buffer_(std::make_unique<char[]>(kReadBytes)) {
  if (file_ == nullptr) {
    failure_ =
        is_no_file(path) ? "it is a pipe, a socket or a device, not a file" : std::strerror(errno);
  } else {
    gzbuffer(gz(file_), 1 << 17);
    std::error_code ignored;
    file_size_ = static_cast<double>(std::filesystem::file_size(path, ignored));
  }
}

GzipReader::~GzipReader() {
  if (file_ != nullptr) gzclose(gz(file_));
}

bool GzipReader::refill() {
  at_ = 0;
  size_ = read(buffer_.get(), kReadBytes);
  return size_ > 0;
}

std::size_t GzipReader::read(char* to, std::size_t size) {
  if (file_ == nullptr || !failure_.empty()) return 0;
  const int count = gzread(gz(file_), to, static_cast<unsigned>(size));
  int code = Z_OK;
  const char* message = gzerror(gz(file_), &code);
  if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    failure_ = code == Z_ERRNO ? std::strerror(errno) : message;
  }
  if (count <= 0) return 0;
  text_size_ += count;
  if (text_size_ > kAnyGrowth && text_size_ > kMostGrowth * file_size_) {
    failure_ =
        "it grows to more than 100 times its size when it is decompressed, which no trace does";
    return 0;
  }
  return static_cast<std::size_t>(count);
}

void GzipReader::skip(std::uint64_t size) {
  if (file_ == nullptr || gzseek(gz(file_), static_cast<z_off_t>(size), SEEK_CUR) >= 0) return;
  failure_ = "it ends before character " + std::to_string(size);
}

double GzipReader::fraction_read() const {
  if (file_ == nullptr || !(file_size_ > 0)) return 1;
  return std::min(1.0, static_cast<double>(gzoffset(gz(file_))) / file_size_);
}

std::string GzipReader::failure() const { return failure_; }

}  // namespace lockstep
