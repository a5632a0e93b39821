// Screenshots without a display: for documentation, tests and scripts.
#pragma once

#include <QString>
#include <QStringList>
#include <string>

#include "core/base/result.hpp"
#include "gui/views/main_window.hpp"

namespace lockstep::gui {

struct ScreenshotOptions {
  QString file;      // PNG, or what the ending says
  QStringList set;   // "section.key=value" over the scenario
  QStringList open;  // opened one after the other, each when the one before is there
  std::string view;  // only this one; empty: the whole window
  std::string find;  // selects the first span that a search for these words finds
  bool critical_path = false;
  bool search = false;  // the layouts of the scenario's cluster
  std::string at;       // cursor: seconds from the run's begin, or "NN%" of it; empty: the begin
};

/// Puts "section.key=value" over the scenario that is open, as the sliders do; nothing if `file`,
/// opened last, is none.
void set_over_scenario(Session& session, const QString& file, const QStringList& values);

/// Opens the files, waits for the background work and saves what the window shows. Errors: those of
/// the files; InvalidSpec for `at`; Device if the picture cannot be written.
Result<void> take_screenshot(MainWindow& window, Session& session,
                             const ScreenshotOptions& options);

/// The time that `text` names (see ScreenshotOptions::at). Error: InvalidSpec.
Result<SimTime> parse_time(const std::string& text, const RunView& run);

}  // namespace lockstep::gui
