// The list of views: what the main window docks. A new view is a file of its own and one row here.
#pragma once

#include <QWidget>
#include <functional>
#include <vector>

#include "gui/model/session.hpp"

namespace lockstep::gui {

struct ViewEntry {
  const char* name;   // of --view and of saved window states: "timeline"
  const char* title;  // on the dock: "Timeline"
  Qt::DockWidgetArea area;
  bool shown;                              // in the window's first arrangement
  std::function<QWidget*(Session&)> make;  // the caller owns the widget; the session outlives it
};

/// In the order of tabs and menus. The first is the central one.
const std::vector<ViewEntry>& view_list();

}  // namespace lockstep::gui
