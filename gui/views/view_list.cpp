#include "gui/views/view_list.hpp"

#include "gui/views/compare_view.hpp"
#include "gui/views/details_view.hpp"
#include "gui/views/lesson_view.hpp"
#include "gui/views/memory_view.hpp"
#include "gui/views/play_view.hpp"
#include "gui/views/runs_view.hpp"
#include "gui/views/schedule_view.hpp"
#include "gui/views/search_view.hpp"
#include "gui/views/shards_view.hpp"
#include "gui/views/summary_view.hpp"
#include "gui/views/tables_view.hpp"
#include "gui/views/timeline_panel.hpp"
#include "gui/views/what_if_view.hpp"

namespace lockstep::gui {
namespace {

template <class View>
QWidget* make(Session& session) {
  return new View(session);
}

}  // namespace

const std::vector<ViewEntry>& view_list() {
  static const std::vector<ViewEntry> list = {
      {"timeline", "Timeline", Qt::NoDockWidgetArea, true, make<TimelinePanel>},
      {"what-if", "What if", Qt::RightDockWidgetArea, true, make<WhatIfView>},
      {"runs", "Runs", Qt::RightDockWidgetArea, true, make<RunsView>},
      {"summary", "Summary", Qt::RightDockWidgetArea, true, make<SummaryView>},
      {"details", "Details", Qt::RightDockWidgetArea, true, make<DetailsView>},
      {"play", "Play", Qt::BottomDockWidgetArea, true, make<PlayView>},
      {"memory", "Memory", Qt::BottomDockWidgetArea, true, make<MemoryView>},
      {"shards", "Shards", Qt::BottomDockWidgetArea, true, make<ShardsView>},
      {"schedule", "Schedule", Qt::BottomDockWidgetArea, true, make<ScheduleView>},
      {"compare", "Compare", Qt::BottomDockWidgetArea, true, make<CompareView>},
      {"search", "Search", Qt::BottomDockWidgetArea, true, make<SearchView>},
      {"table", "Table", Qt::BottomDockWidgetArea, true, make<TablesView>},
      {"lesson", "Lesson", Qt::RightDockWidgetArea, true, make<LessonView>},
  };
  return list;
}

}  // namespace lockstep::gui
