// The menus of the main window, and what they do with files. Every entry is a command, too.
#include <QDockWidget>
#include <QEvent>
#include <QFileDialog>
#include <QMenuBar>
#include <QStatusBar>

#include "gui/views/glossary_dialog.hpp"
#include "gui/views/main_window.hpp"
#include "gui/views/start_page.hpp"
#include "gui/views/timeline_panel.hpp"
#include "gui/views/timeline_view.hpp"
#include "gui/views/unsaved.hpp"
#include "gui/views/view_list.hpp"

namespace lockstep::gui {
namespace {

constexpr int kMessageMs = 8000;  // how long the status line says what was read or written

}  // namespace

void MainWindow::make_menus() {
  const auto add = [this](QMenu* menu, const QString& title, const QKeySequence& key,
                          std::function<void()> run) {
    QAction* action = menu->addAction(title, this, run);
    if (!key.isEmpty()) action->setShortcut(key);
    own_commands_.push_back({QString(title).remove('&').remove(u'…'),
                             key.isEmpty() ? std::vector<QKeySequence>{} : std::vector{key},
                             std::move(run)});
    return action;
  };

  QMenu* file = menuBar()->addMenu("&File");
  add(file, "&Open…", QKeySequence::Open, [this] { choose_and_open(false); });
  add(file, "Open &run folder…", QKeySequence("Ctrl+Shift+O"), [this] { choose_and_open(true); });
  recent_ = file->addMenu("Open re&cent");
  file->addSeparator();
  save_ = add(file, "&Save scenario", QKeySequence::Save, [this] { choose_and_save(false); });
  add(file, "Save scenario &as…", QKeySequence("Ctrl+Shift+S"), [this] { choose_and_save(true); });
  QMenu* exports = file->addMenu("&Export");
  for (const Export& what : export_list()) {
    add(exports, QString(what.title) + "…", QKeySequence(what.key),
        [this, &what] { choose_and_export(what); });
    own_commands_.back().title.prepend("Export: ");
  }
  file->addSeparator();
  add(file, "&Quit", QKeySequence::Quit, [this] { close(); });

  QMenu* edit = menuBar()->addMenu("&Edit");
  undo_ = add(edit, "&Undo", QKeySequence::Undo, [this] { session_.undo(); });
  redo_ = add(edit, "&Redo", QKeySequence("Ctrl+Shift+Z"), [this] { session_.redo(); });
  redo_->setShortcuts({QKeySequence("Ctrl+Shift+Z"), QKeySequence("Ctrl+Y")});  // both habits
  edit->addSeparator();
  add(edit, "Keep this run as &A", QKeySequence("Ctrl+Alt+A"),
      [this] { session_.store(Slot::A, session_.run()); });
  add(edit, "Keep this run as &B", QKeySequence("Ctrl+Alt+B"),
      [this] { session_.store(Slot::B, session_.run()); });

  QMenu* view = menuBar()->addMenu("&View");
  int number = 0;
  for (const ViewEntry& entry : view_list()) {
    ++number;
    add(view, QString("Show %1").arg(entry.title),
        number <= 9 ? QKeySequence(QString("Alt+%1").arg(number)) : QKeySequence(),
        [this, name = std::string(entry.name)] { show_view(name); });
  }
  view->addSeparator();
  add(view, "&Find a row…", QKeySequence("Ctrl+P"), [this] {
    TimelineView& timeline = static_cast<TimelinePanel*>(centralWidget())->timeline();
    CommandPalette({{"Row", timeline.row_commands(), {}}}, this, "row").exec();
  });
  add(view, "F&ull screen", QKeySequence(Qt::Key_F11),
      [this] { isFullScreen() ? showNormal() : showFullScreen(); });
  add(view, "&Light", {}, [this] { set_theme(false); });
  add(view, "&Dark", {}, [this] { set_theme(true); });
  add(view, "Reset &panels", {}, [this] { reset_layout(); });

  QMenu* help = menuBar()->addMenu("&Help");
  add(help, "&Find a command…", QKeySequence("Ctrl+Shift+P"),
      [this] { CommandPalette(commands(), this).exec(); });
  add(help, "&Glossary", QKeySequence("F1"), [this] { (new GlossaryDialog(this))->show(); });
  add(help, "&Keys and mouse", QKeySequence("?"), [this] { KeySheet(commands(), this).exec(); });
}

std::vector<CommandGroup> MainWindow::commands() {
  std::vector<CommandGroup> groups;
  for (const ViewEntry& entry : view_list()) {
    if (auto* source = dynamic_cast<CommandSource*>(view(entry.name))) {
      groups.push_back({source->commands_title(), source->commands(), source->gestures()});
    }
  }
  groups.push_back({"Window", own_commands_, {{"drop files", "open them"}}});
  return groups;
}

void MainWindow::show_recent() {
  recent_->clear();
  for (const QString& path : recent_files()) {
    recent_->addAction(path, this, [this, path] { open(path); });
  }
  recent_->setEnabled(!recent_->isEmpty());
  static_cast<TimelinePanel*>(centralWidget())->start().show_recent(recent_files());
}

void MainWindow::choose_and_open(bool folder) {
  const QString path =
      folder ? QFileDialog::getExistingDirectory(this, "Open a run folder")
             : QFileDialog::getOpenFileName(this, "Open", QString(),
                                            "Scenarios, traces, programs, schedules (*.toml *.json "
                                            "*.gz *.pickle *.pkl *.sqlite *.et "
                                            "*.program *.csv);;"
                                            "All files (*)");
  if (!path.isEmpty()) open(path);
}

void MainWindow::choose_and_save(bool other_name) {
  if (!session_.has_document()) return;
  QString error;
  if (save_document(this, session_, other_name, error)) {
    const QString path = QString::fromStdString(session_.path());
    keep_recent(path);
    statusBar()->showMessage("Saved: " + path, kMessageMs);
  }
  if (!error.isEmpty()) tell(error + ". Save scenario as… (Ctrl+Shift+S) takes another place.");
}

/// Reads again what another program has changed meanwhile, when the user comes back to the window.
void MainWindow::changeEvent(QEvent* event) {
  QMainWindow::changeEvent(event);
  if (event->type() != QEvent::ActivationChange || !isActiveWindow()) return;
  QStringList names;
  for (const std::string& path : session_.reread()) names << QString::fromStdString(path);
  if (names.isEmpty()) return;
  statusBar()->showMessage("Changed by another program, and read again: " + names.join(", "),
                           kMessageMs);
}

void MainWindow::choose_and_export(const Export& what) {
  const QString path = ask_where_to_write(this, what.title, what.file, what.filter);
  if (!path.isEmpty()) export_to(what, path);
}

void MainWindow::export_to(const Export& what, const QString& path) {
  if (writing_.busy()) return tell("Another file is still being written.");
  TimelineView& timeline = static_cast<TimelinePanel*>(centralWidget())->timeline();
  Result<Export::Job> job = what.prepare(session_, timeline, path);
  if (!job) return tell(QString::fromStdString(to_string(job.error())));
  writing_.submit([this, path, write = std::move(*job)](const Cancelled&) -> Latest::Apply {
    return [this, path, written = write()] {
      if (!written) return tell(QString::fromStdString(to_string(written.error())));
      statusBar()->showMessage("Written: " + path, kMessageMs);
    };
  });
}

}  // namespace lockstep::gui
