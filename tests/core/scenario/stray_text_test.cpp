#include "core/scenario/stray_text.hpp"

#include "core/scenario/document.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

std::string place(const std::string& text) {
  const std::optional<Error> stray = find_stray_text(text, "f");
  return stray ? std::to_string(stray->where->line) + ":" + std::to_string(stray->where->column)
               : "";
}

TEST_CASE("any character may stand in strings and comments", "[core][scenario]") {
  for (const char* text :
       {"", "# é × 漢\n", "a = \"é\"\n", "a = 'é'\n", "a = \"\"\"é\n漢\"\"\" # ×\n",
        "a = '''é''' # \xF0\x9F\x98\x80\n", "\"é\" = 1\n", "a = \"\\\"é\" # é\n", "a = 'x\\' # é\n",
        "a = \"\"\"\"é\"\"\"\"\" # é\n",
        "\xEF\xBB\xBF"
        "a = 1\n",
        "a = \"\"\"x \\\n   y é\"\"\"\n"}) {
    INFO(text);
    CHECK(place(text).empty());
    CHECK(parse_document(text, "f").ok());
  }
}

TEST_CASE("a stray character is found at its line and column", "[core][scenario]") {
  CHECK(place("é = 1\n") == "1:1");
  CHECK(place("\xEF\xBB\xBFé = 1\n") == "1:1");
  CHECK(place("a = 1\nb = \"é\" ×\n") == "2:9");
  CHECK(place("a = '''\né''' ×\n") == "2:6");
  CHECK(place("a = 'x\\'é\n") == "1:9");
  CHECK(place("a = \"\"\"x \\\n  é\"\"\"\n") == "2:3");
  CHECK(place("a = \"\"\"\\é\"\"\"\n") == "1:9");
  CHECK(place("a = 1\xC2\xA0") == "1:6");  // no-break space, a common paste
}

TEST_CASE("a document that nests deep, or is long, is refused before it is parsed",
          "[core][scenario]") {
  std::string parts = "a";
  for (int i = 0; i < kDeepestKey; ++i) parts += ".a";
  for (const std::string& text :
       {parts + " = 1\n", "[" + parts + "]\n", "x = {" + parts + " = 1}\n"}) {
    INFO(text);
    CHECK(place(text).empty());
    CHECK(parse_document(text, "f").ok());
  }
  parts += ".a";
  CHECK(place(parts + " = 1\n") == "1:34");
  CHECK(place("b = 1\n[" + parts + "]\n") == "2:35");
  CHECK_FALSE(parse_document(parts + " = 1\n", "f").ok());
  CHECK(place("a = '" + std::string(100, '.') + "' # " + std::string(100, '.') + "\n").empty());
  // The shape of a file of dots that overflowed the stack, and of one of inline tables.
  std::string dots = "a";
  for (int i = 0; i < 18000; ++i) dots += ".a";
  CHECK_FALSE(parse_document(dots + " = 1\n", "f").ok());
  std::string tables, ends;
  for (int i = 0; i < 5000; ++i) {
    tables += "a = {";
    ends += "}";
  }
  CHECK_FALSE(parse_document(tables + ends + "\n", "f").ok());
  CHECK_FALSE(parse_document("a = " + std::string(5000, '[') + "\n", "f").ok());
  CHECK_THAT(parse_document(std::string(kLongestDocument + 1, '#'), "f").error().message,
             ContainsSubstring("it has 1048577 bytes, and the longest that is read 1048576"));
}

TEST_CASE("a string left open is left to the TOML parser", "[core][scenario]") {
  for (const char* text : {"a = \"é\n×\n", "a = 'é\n×\n", "a = \"\"\"é\n×\n", "a = \"\\é\"\n"}) {
    INFO(text);
    CHECK(place(text).empty());
    CHECK_FALSE(parse_document(text, "f").ok());
  }
}

}  // namespace
}  // namespace lockstep
