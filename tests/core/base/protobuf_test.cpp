#include "core/base/protobuf.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("a message has the bytes of protobuf's own examples", "[core][base]") {
  // protobuf.dev, Encoding: message Test1 { int32 a = 1 } with a = 150, Test2 { string b = 2 } with
  // "testing", and -2 as an int64 has ten bytes.
  ProtobufWriter one, two, three;
  one.varint(1, 150);
  CHECK(one.text() == "\x08\x96\x01");
  two.bytes(2, "testing");
  CHECK(two.text() == "\x12\x07testing");
  three.varint(1, static_cast<std::uint64_t>(-2));
  CHECK(three.text() == "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST_CASE("fields are read as they were written, and no prefix reads as the whole",
          "[core][base]") {
  ProtobufWriter inner, message;
  inner.varint(7, 300);
  message.varint(1, ~std::uint64_t{0});
  message.real(2, 0.1);
  message.single(3, 2.5F);
  message.bytes(16, inner.text());
  const std::string text = message.text();
  ProtobufReader reader(text);
  CHECK(reader.next()->integer() == -1);
  CHECK(reader.next()->value == 0x3fb999999999999a);  // 0.1 as float64
  CHECK(reader.next()->value == 0x40200000);          // 2.5 as float32
  const auto nested = reader.next();
  REQUIRE(nested);
  CHECK(nested->number == 16);
  CHECK(nested->holds_bytes);
  CHECK(ProtobufReader(nested->bytes).next()->value == 300);
  CHECK(!reader.next());
  CHECK(!reader.damaged());
  for (std::size_t length = 0; length < text.size(); ++length) {
    ProtobufReader cut(std::string_view(text).substr(0, length));
    int fields = 0;
    while (cut.next()) ++fields;
    INFO(length);
    CHECK(fields < 4);
    // A message may end behind any of its fields, and only there.
    const bool between = length == 0 || length == 11 || length == 20 || length == 25;
    CHECK(cut.damaged() != between);
  }
}

TEST_CASE("a varint of more than 64 bits, a group and a length beyond the end are damage",
          "[core][base]") {
  for (const std::string& text : {std::string(11, '\xff'), std::string("\x0b"),
                                  std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f")}) {
    ProtobufReader reader(text);
    CHECK(!reader.next());
    CHECK(reader.damaged());
  }
}

}  // namespace
}  // namespace lockstep
