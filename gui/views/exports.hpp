// Exports: what can be written to a file. Each format is a row of a list, which the File menu, the
// command palette and the tests use.
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
  const char* key;     // shortcut; empty if it has none
  const char* file;    // suggested name of the file
  const char* filter;  // of the file dialog
  /// Writes the file. It uses no widget and may run on any thread. Its error is Device.
  using Job = std::function<Result<void>()>;
  /// Makes the job. Error InvalidSpec if there is nothing to write.
  Result<Job> (*prepare)(const Session& session, TimelineView& timeline, const QString& path);
};

const std::vector<Export>& export_list();
/// The export that makes an animation for the ending of a path: .svg, .png or .apng; null for
/// another one.
const Export* animation_export(const QString& path);

}  // namespace lockstep::gui
