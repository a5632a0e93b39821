// MainWindow: the window with the views in docks and the menus, and what it remembers.
#pragma once

#include <QMainWindow>
#include <map>
#include <string>

#include "gui/model/session.hpp"
#include "gui/views/exports.hpp"
#include "gui/views/palette.hpp"

class QDockWidget;
class QLabel;
class QProgressBar;
class QPushButton;
class QSettings;
class QTimer;

namespace lockstep::gui {

class MainWindow final : public QMainWindow {
 public:
  explicit MainWindow(Session& session);
  /// Brings a view to the front and gives it the keyboard; false if there is no view of that name.
  bool show_view(const std::string& name);
  void bring_up(const std::string& name);  // the same, and leaves the keyboard where it is
  /// Says that the views in front were asked for, so that an opened file does not bring others.
  void keep_views_in_front() { asked_for_views_ = true; }
  QWidget* view(const std::string& name) const;  // null if there is no view of that name
  void set_theme(bool dark);
  void reset_layout();  // arranges the docks as they were at first
  /// Restores size, docks, theme and recent files from `settings`, which must outlive the window,
  /// and keeps them there from now on. Unless it is called, nothing is read and nothing is kept.
  void remember(QSettings& settings);
  /// Opens again what a session that was killed had not saved, and keeps in `folder` what this one
  /// has not. Returns a sentence for tell() about what was opened; empty if nothing was.
  QString keep_changes_in(const QString& folder);
  QStringList recent_files() const;  // newest first, at most ten

  /// Everything that can be done by key or by name, for the palette and the keyboard sheet.
  std::vector<CommandGroup> commands();
  void tell(const QString& message);  // shown until it is closed or the next file is opened

  void open(const QString& path);
  /// Writes a file in the background, and tells the user if that fails.
  void export_to(const Export& what, const QString& path);

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  void closeEvent(QCloseEvent* event) override;
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  bool focusNextPrevChild(bool next) override;  // passes over panels that are behind others

 private:
  void fit_screen();
  void size_docks();
  void put_panels_away();
  void bring_panels_back();  // as they were
  void make_views();
  void make_status();
  void make_menus();
  void show_state();
  void show_profile();
  void show_recent();
  void keep_recent(const QString& path);
  void choose_and_open(bool folder);
  void choose_and_save(bool other_name);
  void choose_and_export(const Export& what);
  void keep_views();

  Session& session_;
  QSettings* settings_ = nullptr;
  bool dark_ = false;
  bool docks_restored_ = false;
  bool something_open_ = false;
  bool panels_away_ = false;
  QByteArray arranged_;           // how the panels are to come back
  bool asked_for_views_ = false;  // on the command line
  std::map<std::string, QDockWidget*> docks_;
  std::map<std::string, QWidget*> views_;  // those in docks
  QMenu* recent_ = nullptr;
  QAction *undo_ = nullptr, *redo_ = nullptr, *save_ = nullptr;
  std::vector<Command> own_commands_;
  QToolBar* message_bar_;
  QLabel* message_;
  QLabel* status_;
  QProgressBar* busy_;
  QPushButton* cancel_;
  QTimer* busy_soon_;
  Latest writing_;  // the last member, so that it stops before the others are destroyed
};

}  // namespace lockstep::gui
