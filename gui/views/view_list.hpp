// View list: the views that the main window shows in docks. A new view is a file of its own and one
// row of this list.
#pragma once

#include <QWidget>
#include <functional>
#include <vector>

#include "gui/model/session.hpp"

namespace lockstep::gui {

struct ViewEntry {
  const char* name;   // "timeline", for --view and saved states of the window
  const char* title;  // "Timeline", on the dock
  Qt::DockWidgetArea area;
  bool shown;                              // whether it is shown at first
  std::function<QWidget*(Session&)> make;  // the caller owns the widget; the session outlives it
};

/// All views, in the order of tabs and menus. The first is the central one.
const std::vector<ViewEntry>& view_list();

}  // namespace lockstep::gui
