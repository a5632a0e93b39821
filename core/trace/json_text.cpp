#include "core/trace/json_text.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

constexpr std::size_t kLongestEscape = 6;  // \u0041

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Length of the escape that begins with the backslash at `at`; 0: JSON has no such escape.
std::size_t escape_length(const char* at, const char* end) {
  if (end - at < 2) return 0;
  if (at[1] != 'u') return std::strchr("\"\\/bfnrt", at[1]) != nullptr ? 2 : 0;
  if (end - at < static_cast<std::ptrdiff_t>(kLongestEscape)) return 0;
  return std::all_of(at + 2, at + kLongestEscape, is_hex) ? kLongestEscape : 0;
}

}  // namespace

JsonText::JsonText(const std::string& path, std::function<bool(double)> on_chunk,
                   std::uint64_t from)
    : file_(path),
      on_chunk_(std::move(on_chunk)),
      buffer_(std::make_unique<char[]>(kChunk + 1)),
      at_(buffer_.get()),
      end_(buffer_.get()),
      consumed_(from),
      value_begin_(from) {
  if (from > 0) file_.skip(from);
  refill();
  const std::string_view text(at_, static_cast<std::size_t>(end_ - at_));
  if (from == 0 && text.starts_with("\xEF\xBB\xBF") && text.size() > 3) at_ += 3;
}

/// Reads the next chunk. Requires at_ == end_. Afterwards at_ == end_ only at the end of the text,
/// where it points to 0.
void JsonText::refill() {
  char* const begin = buffer_.get();
  consumed_ += static_cast<std::uint64_t>(end_ - begin);
  at_ = begin;
  bool last = false;
  do {
    std::memmove(begin, end_, held_);
    std::size_t size = held_;
    if (!on_chunk_(file_.fraction_read())) {
      stopped_ = "cancelled";
    } else if (consumed_ - value_begin_ > kLongestValue) {
      stopped_ = "a value of more than 64 MiB";
    } else {
      size += file_.read(begin + size, kChunk - size);
    }
    last = size == held_ || !stopped_.empty();
    if (!stopped_.empty()) size = 0;
    end_ = begin + mend(size, last);
    held_ = size - static_cast<std::size_t>(end_ - begin);
  } while (at_ == end_ && !last);
  if (at_ == end_) *end_ = '\0';
}

/// Mends the `size` characters in the buffer and returns how many of them may be taken: all except
/// an escape that continues in the next chunk.
std::size_t JsonText::mend(std::size_t size, bool last) {
  char* const begin = buffer_.get();
  char* const end = begin + size;
  for (char* c = begin; c != end; ++c) {
    if (static_cast<unsigned char>(*c) < ' ') *c = ' ';
  }
  for (char* at = begin; at != end;) {
    at = static_cast<char*>(std::memchr(at, '\\', static_cast<std::size_t>(end - at)));
    if (at == nullptr) break;
    if (!last && static_cast<std::size_t>(end - at) < kLongestEscape) {
      return static_cast<std::size_t>(at - begin);
    }
    const std::size_t length = escape_length(at, end);
    if (length == 0) *at = '/';
    at += std::max<std::size_t>(length, 1);
  }
  return size;
}

SourceSpan place_in_file(const std::string& path, std::uint64_t offset) {
  GzipReader file(path);
  std::int64_t line = 1, column = 1;
  const auto buffer = std::make_unique<char[]>(JsonText::kChunk);
  while (offset > 0) {
    const std::size_t size =
        file.read(buffer.get(), std::min<std::uint64_t>(offset, JsonText::kChunk));
    if (size == 0) break;
    offset -= size;
    for (const char* c = buffer.get(); c != buffer.get() + size; ++c) {
      column = *c == '\n' ? 1 : column + 1;
      line += *c == '\n' ? 1 : 0;
    }
  }
  constexpr std::int64_t kLargest = std::numeric_limits<int>::max();
  return {path, static_cast<int>(std::min(line, kLargest)),
          static_cast<int>(std::min(column, kLargest))};
}

}  // namespace lockstep
