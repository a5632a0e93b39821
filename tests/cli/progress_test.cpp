#include "cli/progress.hpp"

#include <algorithm>
#include <sstream>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

std::string progress_of(int first_step, int steps, bool live) {
  std::ostringstream out, err;
  Console console{out, err};
  console.live = live;
  {
    Progress progress(console, first_step, steps, 1000, "tok");
    for (int i = 0; i < steps; ++i) {
      progress.step({first_step + i, 5.0, 1.0, 1e-3, Seconds{0.1}});
    }
  }
  CHECK(out.str().empty());
  return err.str();
}

TEST_CASE("on a terminal the progress line rewrites itself and ends with a newline", "[cli]") {
  const std::string text = progress_of(0, 50, true);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK(std::count(text.begin(), text.end(), '\r') == 50);
  CHECK(text.back() == '\n');
}

TEST_CASE("elsewhere it is about twenty lines with the first and the last step", "[cli]") {
  const std::string text = progress_of(100, 400, false);
  CHECK(std::count(text.begin(), text.end(), '\n') == 21);
  CHECK(std::count(text.begin(), text.end(), '\r') == 0);
  CHECK(text.find('\033') == std::string::npos);
  CHECK(text.rfind("step 101/500 | loss 5.0000", 0) == 0);
  CHECK_THAT(text, ContainsSubstring("step 500/500") && ContainsSubstring("10,000 tok/s"));
}

}  // namespace
}  // namespace lockstep
