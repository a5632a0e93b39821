#include "gui/views/palette.hpp"

#include <QHeaderView>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListWidget>
#include <QTreeWidget>
#include <QVBoxLayout>
#include <algorithm>

namespace lockstep::gui {
namespace {

const Command& command_at(const std::vector<CommandGroup>& groups, std::size_t index) {
  for (const CommandGroup& group : groups) {
    if (index < group.commands.size()) return group.commands[index];
    index -= group.commands.size();
  }
  Q_UNREACHABLE();
}

QString keys_of(const Command& command) {
  QStringList keys;
  for (const QKeySequence& key : command.keys) keys << key.toString(QKeySequence::NativeText);
  return keys.join(", ");
}

}  // namespace

std::vector<std::size_t> matching(const std::vector<CommandGroup>& groups, const QString& words) {
  const QStringList wanted = words.split(' ', Qt::SkipEmptyParts);
  std::vector<std::size_t> found;
  std::vector<bool> begins;
  std::size_t index = 0;
  for (const CommandGroup& group : groups) {
    for (const Command& command : group.commands) {
      const QString text = group.title + " " + command.title;
      if (std::all_of(wanted.begin(), wanted.end(), [&](const QString& word) {
            return text.contains(word, Qt::CaseInsensitive);
          })) {
        found.push_back(index);
      }
      begins.push_back(!wanted.empty() &&
                       command.title.startsWith(wanted.front(), Qt::CaseInsensitive));
      ++index;
    }
  }
  std::stable_partition(found.begin(), found.end(), [&](std::size_t i) { return begins[i]; });
  return found;
}

CommandPalette::CommandPalette(std::vector<CommandGroup> groups, QWidget* parent,
                               const QString& what)
    : QDialog(parent), groups_(std::move(groups)), words_(new QLineEdit), list_(new QListWidget) {
  setWindowTitle("Find a " + what);
  setAccessibleName("Find a " + what);
  resize(520, 420);
  words_->setPlaceholderText("Type parts of the name of a " + what);
  words_->setAccessibleName(what + " to find");
  words_->installEventFilter(this);
  list_->setAccessibleName("Matches");
  list_->setAlternatingRowColors(true);
  auto* all = new QVBoxLayout(this);
  all->addWidget(words_);
  all->addWidget(list_);
  connect(words_, &QLineEdit::textChanged, this, [this] { list_matches(); });
  connect(list_, &QListWidget::itemActivated, this, [this] { run_current(); });
  list_matches();
}

void CommandPalette::list_matches() {
  shown_ = matching(groups_, words_->text());
  list_->clear();
  std::vector<QString> titles;
  for (const CommandGroup& group : groups_) {
    for (const Command& command : group.commands) {
      const QString keys = keys_of(command);
      titles.push_back(group.title + ": " + command.title +
                       (keys.isEmpty() ? QString() : "    " + keys));
    }
  }
  for (const std::size_t index : shown_) list_->addItem(titles[index]);
  list_->setCurrentRow(shown_.empty() ? -1 : 0);
}

void CommandPalette::run_current() {
  const int row = list_->currentRow();
  if (row < 0) return;
  const auto run = command_at(groups_, shown_[row]).run;
  accept();  // closes first, because the command may open a dialog of its own
  run();
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
  if (watched == words_ && event->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (key == Qt::Key_Return || key == Qt::Key_Enter) {
      run_current();
      return true;
    }
    if (key == Qt::Key_Down || key == Qt::Key_Up) {
      const int last = list_->count() - 1;
      const int row = list_->currentRow() + (key == Qt::Key_Down ? 1 : -1);
      list_->setCurrentRow(std::clamp(row, std::min(0, last), std::max(0, last)));
      return true;
    }
  }
  return QDialog::eventFilter(watched, event);
}

KeySheet::KeySheet(const std::vector<CommandGroup>& groups, QWidget* parent) : QDialog(parent) {
  setWindowTitle("Keys and mouse");
  setAccessibleName("Keyboard and mouse reference");
  resize(620, 640);
  auto* tree = new QTreeWidget;
  tree->setAccessibleName("Keys and what they do");
  tree->setColumnCount(2);
  tree->setHeaderHidden(true);
  tree->setAlternatingRowColors(true);
  tree->setRootIsDecorated(false);
  QFont bold = font();
  bold.setBold(true);
  for (const CommandGroup& group : groups) {
    auto* heading = new QTreeWidgetItem(tree, {group.title});
    heading->setFont(0, bold);
    heading->setFirstColumnSpanned(true);
    for (const Command& command : group.commands) {
      const QString keys = keys_of(command);
      if (!keys.isEmpty()) new QTreeWidgetItem(heading, {keys, command.title});
    }
    for (const auto& [gesture, effect] : group.gestures) {
      new QTreeWidgetItem(heading, {gesture, effect});
    }
    heading->setExpanded(true);
    if (heading->childCount() == 0) delete heading;
  }
  tree->resizeColumnToContents(0);
  tree->header()->setStretchLastSection(true);
  auto* all = new QVBoxLayout(this);
  all->addWidget(tree);
}

}  // namespace lockstep::gui
