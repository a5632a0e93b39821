#include "gui/model/timeline/playback.hpp"

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("the cursor stays inside the run, and at its begin in another one", "[gui][timeline]") {
  Playback playback;
  playback.set_run(SimTime{100}, SimTime{300}, true);
  CHECK(playback.cursor() == SimTime{100});
  CHECK(playback.set_cursor(SimTime{1000}));
  CHECK(playback.at_end());
  CHECK_FALSE(playback.set_cursor(SimTime{301}));
  playback.set_run(SimTime{100}, SimTime{200}, false);  // the same world, now shorter
  CHECK(playback.cursor() == SimTime{200});
}

TEST_CASE("playing takes the run in the seconds that it was given", "[gui][timeline]") {
  Playback playback;
  playback.set_run(SimTime{0}, SimTime{1000}, true);
  playback.set_seconds(10);
  CHECK_FALSE(playback.advance(1));  // does not play
  CHECK(playback.set_playing(true));
  CHECK_FALSE(playback.set_playing(true));
  CHECK(playback.advance(2.5));
  CHECK(playback.cursor() == SimTime{250});
  CHECK(playback.advance(100));
  CHECK(playback.at_end());
}

}  // namespace
}  // namespace lockstep::gui
