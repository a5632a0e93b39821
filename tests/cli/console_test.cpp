#include "cli/console.hpp"

#include <sstream>

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("nothing that a terminal would obey reaches it", "[cli]") {
  const std::string text =
      "a\x1b[2Jb\tc\r\n\x07\x7f\xc2\x9b"
      "31m \xc3\xa4 \xe2\x80\xa6";
  const std::string plain = "a?[2Jb\tc?\n??\xc2?31m \xc3\xa4 \xe2\x80\xa6";
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

}  // namespace lockstep
