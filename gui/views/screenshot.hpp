// Screenshot: makes pictures of the window without a display, for documentation, tests and scripts.
#pragma once

#include <QString>
#include <QStringList>
#include <string>

#include "core/base/result.hpp"
#include "gui/views/main_window.hpp"

namespace lockstep::gui {

struct ScreenshotOptions {
  QString file;       // PNG, or the format that the ending says
  QString animate;    // instead: the step as an animation, .svg or .png
  QStringList set;    // overrides of the scenario, "section.key=value"
  QStringList open;   // files to open one after the other, each when the one before is loaded
  QStringList views;  // to bring to the front, behind what opening a file brings there
  std::string view;   // the only view to show; empty: the whole window
  std::string find;   // selects the first span that a search for these words finds
  bool critical_path = false;
  bool search = false;  // search the layouts of the scenario's cluster
  /// The cursor: seconds from the begin of the run, or "NN%" of it; empty: the begin.
  std::string at;
};

/// Sets overrides "section.key=value" of the open scenario, as the sliders do. Does nothing if
/// `file`, which was opened last, is not a scenario.
void set_over_scenario(Session& session, const QString& file, const QStringList& values);

/// Opens the files, waits for the background work and saves what the window shows. Errors: those of
/// the files; InvalidSpec for `at`; Device if the picture cannot be written.
Result<void> take_screenshot(MainWindow& window, Session& session,
                             const ScreenshotOptions& options);

/// The time that `text` names (see ScreenshotOptions::at). Error: InvalidSpec.
Result<SimTime> parse_time(const std::string& text, const RunView& run);

}  // namespace lockstep::gui
