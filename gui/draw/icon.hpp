// Icons: the few signs of the application, drawn from shapes so that they are sharp at any size and
// have the colour of the text beside them.
#pragma once

#include <QIcon>
#include <QPalette>

namespace lockstep::gui {

enum class Sign {
  Play,
  Pause,
  ToStart,
  StepBack,
  StepForward,
  Exchange,
  Close,
  Open,
  Save,
  Search
};

/// The sign in the palette's text colour, paler where disabled.
QIcon icon_of(Sign sign, const QPalette& palette);

}  // namespace lockstep::gui
