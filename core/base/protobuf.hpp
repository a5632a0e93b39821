// Protobuf: messages of protocol buffers on the wire (protobuf.dev, Encoding), written and read
// field by field. A field is a number and a wire type, then the value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

class ProtobufWriter {
 public:
  void varint(std::uint32_t field, std::uint64_t value);
  void real(std::uint32_t field, double value);
  void single(std::uint32_t field, float value);
  /// A string, bytes, or a message within this one.
  void bytes(std::uint32_t field, std::string_view value);
  /// Without a field: a number of so many bytes, the lowest first.
  void fixed(std::uint64_t value, int bytes);
  /// Without a field: `value`, and its length as a varint before it.
  void delimited(std::string_view value);
  const std::string& text() const { return text_; }

 private:
  void key(std::uint32_t field, std::uint32_t type);
  void put(std::uint64_t value);
  std::string text_;
};

struct ProtobufField {
  std::uint32_t number = 0;
  std::uint64_t value = 0;   // of a varint, or the bits of a fixed number
  std::string_view bytes{};  // of a string, bytes or a message; they lie in the reader's text
  bool holds_bytes = false;
  /// A varint of protobuf's types int32 and int64.
  std::int64_t integer() const { return static_cast<std::int64_t>(value); }
};

/// Reads what may be damaged: it never reads behind the end, and says where it stopped.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view text) : text_(text) {}
  /// The next field; nothing at the end, or if the text is no message from here on (see damaged()).
  std::optional<ProtobufField> next();
  /// Without a field: what ProtobufWriter::delimited() wrote.
  std::optional<std::string_view> delimited();
  /// Without a field. Nothing if the text ends in the middle, or the number has more than 64 bits.
  std::optional<std::uint64_t> varint();
  bool at_end() const { return at_ == text_.size(); }
  bool damaged() const { return damaged_; }
  std::size_t at() const { return at_; }

 private:
  std::optional<std::string_view> take(std::uint64_t bytes);
  std::string_view text_;
  std::size_t at_ = 0;
  bool damaged_ = false;
};

}  // namespace lockstep
