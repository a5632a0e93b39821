#include "gui/views/view_list.hpp"

#include "gui/views/timeline_view.hpp"

namespace lockstep::gui {

const std::vector<ViewEntry>& view_list() {
  static const std::vector<ViewEntry> list = {
      {"timeline", "Timeline", Qt::NoDockWidgetArea, true,
       [](Session& session) -> QWidget* { return new TimelineView(session); }},
  };
  return list;
}

}  // namespace lockstep::gui
