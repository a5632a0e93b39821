// JsonText: the characters of a JSON file as an input stream of RapidJSON's parser. Known errors of
// profilers are mended on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/result.hpp"
#include "core/trace/gzip_file.hpp"

namespace lockstep {

/// Reads a plain or gzip file in chunks, so that memory does not grow with the file. Control
/// characters become spaces, the backslash of an escape that JSON does not know becomes a slash (as
/// Kineto writes it by now), and a byte-order mark is skipped. The text ends early if `on_chunk`
/// returns false or one value is longer than kLongestValue; stopped() then says why.
class JsonText {
 public:
  using Ch = char;  // RapidJSON's stream concept, read-only
  static constexpr std::size_t kChunk = 1 << 18;
  static constexpr std::uint64_t kLongestValue = std::uint64_t{64} << 20;

  /// `on_chunk` is called before each chunk with the fraction of the file that has been read. The
  /// text begins at character `from` of the file.
  JsonText(const std::string& path, std::function<bool(double)> on_chunk, std::uint64_t from = 0);

  // NOLINTBEGIN(readability-identifier-naming): the names that RapidJSON calls
  char Peek() const { return *at_; }
  char Take() {
    const char c = *at_;
    if (at_ != end_ && ++at_ == end_) refill();
    return c;
  }
  std::size_t Tell() const { return consumed_ + static_cast<std::size_t>(at_ - buffer_.get()); }
  char* PutBegin() { return nullptr; }
  void Put(char) {}
  void Flush() {}
  std::size_t PutEnd(char*) { return 0; }
  // NOLINTEND(readability-identifier-naming)

  /// The parser calls this for every value; the limit on the length of a value counts from here.
  void value_seen() { value_begin_ = consumed_; }

  bool is_open() const { return file_.is_open(); }
  bool ended() const { return at_ == end_; }               // no character is left
  std::string failure() const { return file_.failure(); }  // GzipReader::failure
  const std::string& stopped() const { return stopped_; }

 private:
  void refill();
  std::size_t mend(std::size_t size, bool last);

  GzipReader file_;
  std::function<bool(double)> on_chunk_;
  std::unique_ptr<char[]> buffer_;       // a chunk and the final 0
  char *at_ = nullptr, *end_ = nullptr;  // the characters that may be taken
  std::size_t held_ = 0;                 // characters behind end_: an escape that was cut in two
  std::uint64_t consumed_ = 0;           // characters before the buffer
  std::uint64_t value_begin_ = 0;
  std::string stopped_;
};

/// Line and column, both 1-based, of the character at `offset` of the text. Reads the file again.
SourceSpan place_in_file(const std::string& path, std::uint64_t offset);

}  // namespace lockstep
