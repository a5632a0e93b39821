// Exports: what can be written to a file. One row per format; the File menu, the command palette
// and the tests go through the list.
#pragma once

#include <QString>
#include <functional>
#include <vector>

#include "core/base/result.hpp"
#include "gui/model/session.hpp"

namespace lockstep::gui {

class TimelineView;

struct Export {
  const char* title;   // "Timeline as SVG"
  const char* key;     // shortcut; empty: none
  const char* file;    // suggested name
  const char* filter;  // of the file dialog
  /// What writes the file; it touches no widget any more and may run on any thread.
  /// Error InvalidSpec: there is nothing of the kind. The job's error: Device.
  using Job = std::function<Result<void>()>;
  Result<Job> (*prepare)(const Session& session, TimelineView& timeline, const QString& path);
};

const std::vector<Export>& export_list();

}  // namespace lockstep::gui
