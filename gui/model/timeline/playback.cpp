#include "gui/model/timeline/playback.hpp"

#include <algorithm>

namespace lockstep::gui {

void Playback::set_run(SimTime begin, SimTime end, bool anew) {
  begin_ = begin;
  end_ = end;
  cursor_ = anew ? begin : std::clamp(cursor_, begin, end);
}

bool Playback::set_cursor(SimTime time) {
  time = std::clamp(time, begin_, end_);
  if (time == cursor_) return false;
  cursor_ = time;
  return true;
}

bool Playback::set_playing(bool playing) {
  if (playing == playing_) return false;
  playing_ = playing;
  return true;
}

bool Playback::advance(double user_seconds) {
  if (!playing_) return false;
  const double ticks = static_cast<double>((end_ - begin_).count()) * user_seconds / seconds_;
  return set_cursor(cursor_ + SimTime{static_cast<std::int64_t>(ticks)});
}

void Playback::set_seconds(double seconds) { seconds_ = std::max(seconds, 0.1); }

}  // namespace lockstep::gui
