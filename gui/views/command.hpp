// Commands: what a view can do, with the keys for it. The view runs them, the keyboard sheet lists
// them, and the command palette finds them.
#pragma once

#include <QKeySequence>
#include <QString>
#include <functional>
#include <vector>

class QKeyEvent;

namespace lockstep::gui {

struct Command {
  QString title;
  std::vector<QKeySequence> keys;
  std::function<void()> run;
};

/// A view that has commands.
class CommandSource {
 public:
  virtual ~CommandSource() = default;
  virtual QString commands_title() const = 0;  // "Timeline"
  virtual std::vector<Command> commands() = 0;
  /// What the mouse does, as pairs of a gesture and its effect, for the keyboard sheet.
  virtual std::vector<std::pair<QString, QString>> gestures() const { return {}; }
};

/// Runs the command to which the key belongs; false if there is none. W, A, S and D mean the keys
/// at their places on the keyboard, whatever is printed on them, if the platform tells the places.
bool run_command(const std::vector<Command>& commands, const QKeyEvent& event);

}  // namespace lockstep::gui
