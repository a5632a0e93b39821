#include "core/base/protobuf.hpp"

#include <bit>

namespace lockstep {
namespace {

// Wire types. Groups (3 and 4) are of the first version of the language and in no file of today.
constexpr std::uint32_t kVarint = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5;

}  // namespace

void ProtobufWriter::varint(std::uint32_t field, std::uint64_t value) {
  key(field, kVarint);
  put(value);
}

void ProtobufWriter::real(std::uint32_t field, double value) {
  key(field, kEightBytes);
  fixed(std::bit_cast<std::uint64_t>(value), 8);
}

void ProtobufWriter::single(std::uint32_t field, float value) {
  key(field, kFourBytes);
  fixed(std::bit_cast<std::uint32_t>(value), 4);
}

void ProtobufWriter::bytes(std::uint32_t field, std::string_view value) {
  key(field, kBytes);
  delimited(value);
}

void ProtobufWriter::fixed(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xffU);
}

void ProtobufWriter::delimited(std::string_view value) {
  put(value.size());
  text_ += value;
}

void ProtobufWriter::key(std::uint32_t field, std::uint32_t type) { put(field << 3U | type); }

void ProtobufWriter::put(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) text_ += static_cast<char>(value | 0x80U);
  text_ += static_cast<char>(value);
}

std::optional<ProtobufField> ProtobufReader::next() {
  if (damaged_ || at_end()) return std::nullopt;
  const std::optional<std::uint64_t> key = varint();
  if (!key) return std::nullopt;
  ProtobufField field;
  field.number = static_cast<std::uint32_t>(*key >> 3U);
  const auto type = static_cast<std::uint32_t>(*key & 7U);
  if (type == kVarint) {
    const std::optional<std::uint64_t> value = varint();
    if (!value) return std::nullopt;
    field.value = *value;
  } else if (type == kBytes) {
    const std::optional<std::string_view> bytes = delimited();
    if (!bytes) return std::nullopt;
    field.bytes = *bytes;
    field.holds_bytes = true;
  } else if (type == kEightBytes || type == kFourBytes) {
    const std::optional<std::string_view> bytes = take(type == kEightBytes ? 8 : 4);
    if (!bytes) return std::nullopt;
    for (std::size_t i = bytes->size(); i-- > 0;) {
      field.value = field.value << 8U | static_cast<unsigned char>((*bytes)[i]);
    }
  } else {
    damaged_ = true;
    return std::nullopt;
  }
  return field;
}

std::optional<std::string_view> ProtobufReader::delimited() {
  const std::optional<std::uint64_t> size = varint();
  return size ? take(*size) : std::nullopt;
}

std::optional<std::uint64_t> ProtobufReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && at_ < text_.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text_[at_++]);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
  damaged_ = true;
  return std::nullopt;
}

std::optional<std::string_view> ProtobufReader::take(std::uint64_t bytes) {
  if (bytes > text_.size() - at_) {
    damaged_ = true;
    return std::nullopt;
  }
  const std::string_view taken = text_.substr(at_, bytes);
  at_ += taken.size();
  return taken;
}

}  // namespace lockstep
