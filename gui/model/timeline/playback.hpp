// Playback: the cursor, and how it moves through the run shown while that is played.
#pragma once

#include "core/base/units.hpp"

namespace lockstep::gui {

class Playback {
 public:
  SimTime cursor() const { return cursor_; }
  bool playing() const { return playing_; }
  /// Seconds that playing the whole run takes.
  double seconds() const { return seconds_; }

  /// Says that the run shown lasts from `begin` to `end`. The cursor is kept inside, or set to the
  /// begin if `anew`.
  void set_run(SimTime begin, SimTime end, bool anew);
  /// The next three require that a run is shown, and return whether anything changed.
  bool set_cursor(SimTime time);      // the cursor stays inside the run
  bool set_playing(bool playing);     // starts at the begin if the cursor is at the end
  bool advance(double user_seconds);  // moves the cursor while playing
  bool at_end() const { return cursor_ >= end_; }
  void set_seconds(double seconds);

 private:
  SimTime begin_{}, end_{}, cursor_{};
  bool playing_ = false;
  double seconds_ = 20;
};

}  // namespace lockstep::gui
