#include "core/format/table.hpp"

#include <algorithm>
#include <sstream>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

std::size_t widest(const std::string& text) {
  std::istringstream lines(text);
  std::size_t width = 0;
  for (std::string line; std::getline(lines, line);) width = std::max(width, text_width(line));
  return width;
}

TextTable layouts() {
  TextTable table(
      {"layout", {"MFU", 2}, "step time", {"exposed comm", 1}, Heading::words("because it has")});
  table.add({"pp 2 × dp 2", "1 %", "1 s", "0 s", "the least of everything that costs time"});
  table.add({"tp 8", "33.3 %", "1000 ms", "9 s", "-"});
  return table;
}

TEST_CASE("a table lines its columns up, counting characters and not bytes", "[core][format]") {
  TextTable table({"name", "value"});
  table.add({"pp 2 × dp 2", "1"});
  table.add({"x", "1000"});
  CHECK(table.text() ==
        "name         value\n"
        "pp 2 × dp 2      1\n"
        "x             1000\n");
}

TEST_CASE("a table without headings has no line for them", "[core][format]") {
  TextTable table({"", ""}, 2);
  table.add({"a", "b"});
  CHECK(table.text() == "a  b\n");
}

TEST_CASE("a table that has room stays as it is", "[core][format]") {
  const std::string whole = layouts().text();
  CHECK(layouts().text({static_cast<int>(widest(whole)), false}) == whole);
  CHECK(layouts().text({static_cast<int>(widest(whole)) - 1, false}) != whole);
}

TEST_CASE("headings are broken first, then columns go in their order, then words are broken",
          "[core][format]") {
  TextTable numbers({"a", "long heading", {"other heading", 1}});
  numbers.add({"x", "1", "2"});
  CHECK(numbers.text({20, false}) ==
        "      long    other\n"
        "a  heading  heading\n"
        "x        1        2\n");
  const std::string narrow = layouts().text({66, false});
  CHECK_THAT(narrow, !ContainsSubstring("9 s") && ContainsSubstring("33.3 %"));
  CHECK_THAT(narrow, ContainsSubstring("(no room for: exposed comm; --wide shows all)"));
  const std::string narrower = layouts().text({40, false});
  CHECK_THAT(narrower, ContainsSubstring("(no room for: exposed comm, MFU; --wide"));
  CHECK_THAT(narrower, ContainsSubstring("1000 ms") && ContainsSubstring("everything"));
}

TEST_CASE("no line of a table is wider than the screen, from 40 characters on", "[core][format]") {
  TextTable paths({"file", "size", Heading::words("why")});
  paths.add({std::string(150, 'x') + "/ä", "1", "a " + std::string(90, 'y') + " b"});
  for (int width = 40; width < 130; ++width) {
    INFO(width);
    CHECK(widest(layouts().text({width, false})) <= static_cast<std::size_t>(width));
    const std::string text = paths.text({width, false});
    CHECK(widest(text) <= static_cast<std::size_t>(width));
    CHECK(std::count(text.begin(), text.end(), 'x') == 150);  // nothing of a cell is lost
    CHECK(std::count(text.begin(), text.end(), 'y') >= 90);
  }
}

TEST_CASE("a brief column is cut instead, and the others keep their room", "[core][format]") {
  TextTable table({"file", Heading::words("what")});
  table.add({"a-file-of-thirty-characters.to", std::string(60, 'w')});
  CHECK(table.text({60, false}).find("…") == std::string::npos);
  std::vector<Heading> columns{"file", Heading::words("what")};
  columns.back().brief = true;
  TextTable brief(columns);
  brief.add({"a-file-of-thirty-characters.to", std::string(60, 'w')});
  CHECK(brief.text({60, false}) ==
        "file                            what\n"
        "a-file-of-thirty-characters.to  " +
            std::string(27, 'w') + "…\n");
}

TEST_CASE("headings are emphasized where there is color, and their width does not count",
          "[core][format]") {
  TextTable table({"a", "b"});
  table.add({"x", "1"});
  CHECK(table.text({4, true}) == "\033[1ma  b\033[0m\nx  1\n");
}

TEST_CASE("text is broken at spaces, later lines are indented, and lines of its own stay",
          "[core][format]") {
  CHECK(wrapped("one two three four five six\nseven", {20, false}, 2) ==
        "one two three four\n  five six\nseven");
  CHECK(wrapped("  name       value and more value\n", {20, false}, 13) ==
        "  name       value\n             and more value\n");
  CHECK(wrapped(std::string(100, 'x') + " y", {40, false}) == std::string(100, 'x') + "\ny");
  CHECK(wrapped("any width", {}) == "any width");
}

}  // namespace
}  // namespace lockstep
