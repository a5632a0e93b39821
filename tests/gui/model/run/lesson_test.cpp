#include "gui/model/run/lesson.hpp"

#include "tests/catch.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("a played step tells its bubbles, and what helps against them", "[gui][model]") {
  // Two stages, one microbatch: rank 1 waits 1 of 4 ms, rank 0 from 1 to 3; then rank 1 is done.
  using test::kMs;
  Trace trace = test::empty_trace(2);
  trace.spans = {test::span(0, 0, 0 * kMs, 1 * kMs), test::span(0, 1, 3 * kMs, 4 * kMs),
                 test::span(1, 0, 1 * kMs, 2 * kMs), test::span(1, 1, 2 * kMs, 3 * kMs)};
  const RunPtr run = make_run("two stages", std::move(trace));
  const std::string words = closing_words(run->steps.front());
  CHECK_THAT(words, ContainsSubstring("The step took 4 ms."));
  CHECK_THAT(words, ContainsSubstring("nothing for 50.0 % of it"));
  CHECK_THAT(words, ContainsSubstring("with more microbatches"));
}

}  // namespace
}  // namespace lockstep::gui
