#include "cli/console.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("nothing that a terminal would obey reaches it", "[cli]") {
  const std::string text =
      "a\x1b[2Jb\tc\r\n\x07\x7f\xc2\x9b"
      "31m \xc3\xa4 \xe2\x80\xa6";
  const std::string plain =
      "a?[2Jb\tc?\n??\xc2\xb7"
      "31m \xc3\xa4 \xe2\x80\xa6";
  CHECK(printable(text) == plain);
  std::ostringstream terminal;
  PrintableBuffer buffer(*terminal.rdbuf());
  std::ostream out(&buffer);
  for (const char c : text) out << c;  // also where a character is cut in two
  out << std::flush;
  CHECK(terminal.str() == plain);
  std::ostringstream err;
  const Console console{out, err};
  report_note(console, "in \x1b]0;title\x07");
  report_error(console, invalid("of \x1b[31mred"));
  CHECK(err.str() == "note: in ?]0;title?\nerror: of ?[31mred\n");
}

TEST_CASE("of what a terminal obeys, only our own emphasis reaches it", "[cli]") {
  std::ostringstream terminal;
  PrintableBuffer buffer(*terminal.rdbuf());
  std::ostream out(&buffer);
  out << "\033[1mbold\033[0m \033[8mhidden\033[0m \033\033[1mx\033" << std::flush;
  CHECK(terminal.str() == "\033[1mbold\033[0m ?[8mhidden\033[0m ?\033[1mx?");
}

TEST_CASE("notes stand above the status line, which comes back below them", "[cli]") {
  std::ostringstream out, terminal;
  StatusBuffer buffer(*terminal.rdbuf());
  std::ostream err(&buffer);
  Console console{out, err};
  console.live = true;
  console.err_width = 20;
  show_status(console, "step 1 of 100, and much that has no room");
  report_note(console, "a checkpoint");
  show_status(console, "step 2");
  keep_status(console);
  err << "end"
      << " of it\n";
  // 19 characters, because a full line would begin the next one.
  CHECK(terminal.str() ==
        "\r\033[Kstep 1 of 100, and "
        "\r\033[Knote: a checkpoint\n\r\033[Kstep 1 of 100, and "
        "\r\033[Kstep 2\n"
        "end of it\n");
}

TEST_CASE("with --json every line of standard error is JSON", "[cli]") {
  std::ostringstream out, err;
  Console console{out, err};
  console.json = true;
  report_warnings(console, {invalid("first\nsecond")});
  report_note(console, "\"so\"");
  CHECK(report_error(console, {ErrorKind::OutOfMemory, "too large", SourceSpan{"a.toml", 3, 7}}) ==
        3);
  std::istringstream lines(err.str());
  std::vector<nlohmann::json> said;
  for (std::string line; std::getline(lines, line);) said.push_back(nlohmann::json::parse(line));
  REQUIRE(said.size() == 3);
  CHECK(said[0]["level"] == "warning");
  CHECK(said[0]["message"] == "first\nsecond");
  CHECK(said[1]["level"] == "note");
  CHECK(said[2]["kind"] == "out_of_memory");
  CHECK(said[2]["file"] == "a.toml");
  CHECK(said[2]["line"] == 3);
  CHECK(said[2]["column"] == 7);
}

}  // namespace lockstep
