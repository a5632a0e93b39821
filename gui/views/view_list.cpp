#include "gui/views/view_list.hpp"

#include "gui/views/runs_view.hpp"
#include "gui/views/timeline_view.hpp"
#include "gui/views/what_if_view.hpp"

namespace lockstep::gui {

const std::vector<ViewEntry>& view_list() {
  static const std::vector<ViewEntry> list = {
      {"timeline", "Timeline", Qt::NoDockWidgetArea, true,
       [](Session& session) -> QWidget* { return new TimelineView(session); }},
      {"what-if", "What if", Qt::RightDockWidgetArea, true,
       [](Session& session) -> QWidget* { return new WhatIfView(session); }},
      {"runs", "Runs", Qt::RightDockWidgetArea, true,
       [](Session& session) -> QWidget* { return new RunsView(session); }},
  };
  return list;
}

}  // namespace lockstep::gui
