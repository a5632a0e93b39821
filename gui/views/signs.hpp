// Signs on buttons, which follow the theme.
#pragma once

#include "gui/draw/icon.hpp"

class QAbstractButton;

namespace lockstep::gui {

/// Shows `sign` on a button, in the colour of the button's text, also when the theme changes.
void set_sign(QAbstractButton& button, Sign sign);

}  // namespace lockstep::gui
