// GzipWriter, GzipReader: buffered text to and from plain or gzip files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/new_file.hpp"
#include "core/base/result.hpp"

namespace lockstep {

/// Collects text and writes it as a NewFile, which commit() puts in place. Without commit() nothing
/// remains.
class GzipWriter {
 public:
  GzipWriter(const std::string& path, bool compress, Links links = Links::Followed);
  ~GzipWriter();
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;
  GzipWriter& text(std::string_view s) {
    buffer_.append(s);
    if (buffer_.size() >= kFlushBytes) flush();
    return *this;
  }
  GzipWriter& integer(std::int64_t value);
  GzipWriter& number(double value);  // shortest text that reads back equal; null if not finite
  GzipWriter& microseconds(std::int64_t picoseconds);  // exact, six decimals
  Result<void> commit();

 private:
  static constexpr std::size_t kFlushBytes = 1 << 16;
  void flush();
  NewFile new_file_;
  std::string buffer_;
  void* file_ = nullptr;  // gzFile
  bool failed_ = false;
};

/// Characters of a file, decompressed as they are read.
class GzipReader {
 public:
  explicit GzipReader(const std::string& path);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;
  bool is_open() const { return file_ != nullptr; }
  /// What went wrong in reading or decompressing ("unexpected end of file"); empty if nothing.
  std::string failure() const;

  /// Single-pass iterator; all copies share the reader's position.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = char;
    Iterator() = default;
    explicit Iterator(GzipReader* reader) : reader_(reader) {}
    char operator*() const { return reader_->buffer_[reader_->at_]; }
    Iterator& operator++() {
      ++reader_->at_;
      return *this;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.ended() == b.ended(); }

   private:
    bool ended() const { return reader_ == nullptr || !reader_->fill(); }
    GzipReader* reader_ = nullptr;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(); }

  /// Reads up to `size` characters, fewer only at the end of the text. For use instead of the
  /// iterator.
  std::size_t read(char* to, std::size_t size);
  /// Passes over `size` characters; at once if the file is not compressed. For use before read().
  void skip(std::uint64_t size);
  /// How much of the file on disk has been read, 0 to 1.
  double fraction_read() const;

 private:
  bool fill() { return at_ < size_ || refill(); }
  bool refill();
  void* file_ = nullptr;  // gzFile
  std::unique_ptr<char[]> buffer_;
  std::size_t at_ = 0, size_ = 0;
  double file_size_ = 0;
  double text_size_ = 0;  // characters that were read
  std::string failure_;
};

}  // namespace lockstep
