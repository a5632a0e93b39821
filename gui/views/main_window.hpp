// MainWindow: the views in docks, the menus, and what the window remembers.
#pragma once

#include <QMainWindow>
#include <map>
#include <string>

#include "gui/model/session.hpp"

class QDockWidget;
class QLabel;

namespace lockstep::gui {

class MainWindow final : public QMainWindow {
 public:
  explicit MainWindow(Session& session);
  /// Brings a view to the front and gives it the keyboard; false: no view of that name.
  bool show_view(const std::string& name);
  QWidget* view(const std::string& name) const;  // null: no view of that name
  void set_theme(bool dark);
  void reset_layout();  // docks as they were at first

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void make_views();
  void make_menus();
  void show_state();

  Session& session_;
  std::map<std::string, QDockWidget*> docks_;
  QLabel* status_;
  QLabel* busy_;
};

}  // namespace lockstep::gui
