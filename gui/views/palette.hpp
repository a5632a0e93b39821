// CommandPalette: finds every command by its name. KeySheet: shows every key on one page.
#pragma once

#include <QDialog>

#include "gui/views/command.hpp"

class QLineEdit;
class QListWidget;

namespace lockstep::gui {

struct CommandGroup {
  QString title;  // "Timeline"
  std::vector<Command> commands;
  std::vector<std::pair<QString, QString>> gestures;
};

/// The indices of the commands (counted through all groups) whose group and title contain every
/// word of `words`, ignoring case. Those that begin with the first word come first.
std::vector<std::size_t> matching(const std::vector<CommandGroup>& groups, const QString& words);

/// `what` says what it finds: "command" or "row".
class CommandPalette final : public QDialog {
 public:
  CommandPalette(std::vector<CommandGroup> groups, QWidget* parent,
                 const QString& what = "command");

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void list_matches();
  void run_current();

  std::vector<CommandGroup> groups_;
  QLineEdit* words_;
  QListWidget* list_;
  std::vector<std::size_t> shown_;
};

class KeySheet final : public QDialog {
 public:
  KeySheet(const std::vector<CommandGroup>& groups, QWidget* parent);
};

}  // namespace lockstep::gui
