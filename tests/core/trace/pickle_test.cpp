#include "core/trace/pickle.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

using namespace std::string_literals;

Result<Pickle> parsed(const std::string& bytes) { return Pickle::parse(bytes, "f.pickle"); }

TEST_CASE("values of every kind are read as Python wrote them", "[core][trace]") {
  // python3 -c 'import pickle; print(pickle.dumps({"a": [1, -2, 70000, 1 << 40, True, None],
  //   "b": (0.5, "ü"), 3: {}}, protocol=2))'
  const Result<Pickle> read = parsed(
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00"
      "\x8a\x06\x00\x00\x00\x00\x00\x01\x88NeX\x01\x00\x00\x00"
      "bq\x03G?\xe0\x00\x00\x00\x00\x00"
      "\x00X\x02\x00\x00\x00\xc3\xbcq\x04\x86q\x05K\x03}q\x06u."s);
  REQUIRE(read.ok());
  const Pickle& p = *read;
  REQUIRE(p.type(p.root()) == Pickle::Type::Dict);
  const auto a = p.items(p.find(p.root(), "a"));
  REQUIRE(a.size() == 6);
  CHECK(p.integer(a[0]) == 1);
  CHECK(p.integer(a[1]) == -2);
  CHECK(p.integer(a[2]) == 70000);
  CHECK(p.integer(a[3]) == std::int64_t{1} << 40);
  CHECK(p.type(a[4]) == Pickle::Type::Bool);
  CHECK(p.integer(a[4]) == 1);
  CHECK(p.type(a[5]) == Pickle::Type::None);
  const auto b = p.items(p.find(p.root(), "b"));
  REQUIRE(b.size() == 2);
  CHECK(p.type(b[0]) == Pickle::Type::Float);
  CHECK(p.text(b[1]) == "ü");
  CHECK(p.find(p.root(), "c") == Pickle::kNothing);
  CHECK(p.integer(Pickle::kNothing, 7) == 7);
}

TEST_CASE("a list that holds itself is read and asked without end", "[core][trace]") {
  const Result<Pickle> read = parsed(
      "\x80\x02]q\x00h\x00"
      "a."s);  // a = []; a.append(a)
  REQUIRE(read.ok());
  const auto items = read->items(read->root());
  REQUIRE(items.size() == 1);
  CHECK(items[0] == read->root());
}

TEST_CASE("what would run code is refused, and nothing else is done", "[core][trace]") {
  for (const std::string& code :
       {"\x80\x02"
        "cos\nsystem\nX\x02\x00\x00\x00ls\x85R."s,      // GLOBAL, REDUCE
        "\x80\x04\x8c\x02os\x8c\x06system\x93)\x81."s,  // STACK_GLOBAL, NEWOBJ
        "\x80\x02}b."s, "(ios\nsystem\n."s, "\x80\x02K\x01Q."s, "\x80\x02\x82\x01."s}) {
    const Result<Pickle> read = parsed(code);
    REQUIRE_FALSE(read.ok());
    CHECK_THAT(read.error().message, ContainsSubstring("nothing of a pickle is executed"));
  }
}

TEST_CASE("a pickle that is cut off or makes no sense is an error with its byte", "[core][trace]") {
  const std::pair<std::string, const char*> bad[] = {
      {"", "ends in the middle (byte 0)"},
      {"\x80\x02X\xff\xff\xff\xff"
       "a"s,
       "ends in the middle (byte 2)"},
      {"\x80\x02"
       "a."s,
       "takes a value where there is none (byte 2)"},
      {"\x80\x02"
       "e."s,
       "ends a list that has no begin"},
      {"\x80\x02K\x01K\x02"
       "a."s,
       "adds to what is no list"},
      {"\x80\x02}(K\x01u."s, "a key has no value"},
      {"\x80\x02h\x05."s, "was not kept"},
      {"\x80\x09."s, "protocol later than 5"},
      {"{}", "no opcode 123"},
      {"\x80\x02."s, "takes a value"},
  };
  for (const auto& [bytes, message] : bad) {
    INFO(message);
    const Result<Pickle> read = parsed(bytes);
    REQUIRE_FALSE(read.ok());
    CHECK_THAT(read.error().message, ContainsSubstring(message));
    CHECK(read.error().where->file == "f.pickle");
  }
}

}  // namespace
}  // namespace lockstep
