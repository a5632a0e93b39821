// StartPage: what there is to open, with what it is for, while nothing is open.
#pragma once

#include <QStringList>
#include <QWidget>
#include <functional>

#include "gui/model/session.hpp"

class QListWidget;
class QListWidgetItem;
class QVBoxLayout;

namespace lockstep::gui {

class StartPage final : public QWidget {
 public:
  explicit StartPage(Session& session, QWidget* parent = nullptr);
  /// Opens a path; by default the session does. The window sets it, which keeps recent files.
  void on_open(std::function<void(const QString&)> open) { open_ = std::move(open); }
  void show_recent(const QStringList& paths);  // newest first
  /// The folder of the scenarios that come with Lockstep: above the program or the working
  /// directory; empty if there is none.
  static QString scenarios();
  static QString course();  // the folder of the lessons' pages; empty if there is none
  /// A scenario of the model of a Hugging Face config.json, on eight H100s.
  static std::string text_for_config(const std::string& path);

 private:
  /// `room` is the list's part of the column, beside those of other lists.
  QListWidget* add_list(QVBoxLayout& column, const char* title, const char* purpose, int room = 1);
  void add_lessons(QListWidget& list);
  void add_file(QListWidget& list, const QString& path);
  void open_config();

  Session& session_;
  std::function<void(const QString&)> open_;
  QListWidget* recent_;
};

}  // namespace lockstep::gui
