// LessonView: the page of the lesson whose scenario is open. Its links try things, its figures come
// from the simulator, and each of its questions has an answer to reveal.
#pragma once

#include <QString>
#include <QWidget>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/lesson/lesson.hpp"
#include "gui/model/run/latest.hpp"
#include "gui/model/session.hpp"

class QComboBox;
class QPushButton;
class QTextBrowser;
class QUrl;

namespace lockstep::gui {

class LessonView final : public QWidget {
 public:
  explicit LessonView(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {380, 600}; }
  const std::vector<Lesson>& course() const { return course_; }
  /// The lesson whose scenario is open; null if it is none.
  const Lesson* lesson() const {
    return at_ < 0 ? nullptr : &course_[static_cast<std::size_t>(at_)];
  }
  QString words() const;  // what the page says now, without marks

  /// Called with the name of a view that a link asks for, and with "lesson" when a lesson begins.
  void on_show(std::function<void(const std::string&)> show) { show_ = std::move(show); }
  /// Opens a path; by default the session does. The window sets it, which keeps recent files.
  void on_open(std::function<void(const QString&)> open) { open_ = std::move(open); }
  /// Does what a link of a page says (see Lesson), or reveals the answer of "answer:0".
  void follow(const QUrl& link);

 private:
  void find_lesson();
  void fill();
  void show_page();
  void go(int lesson);

  Session& session_;
  std::vector<Lesson> course_;
  int at_ = -1;       // into course_; -1: no lesson is open
  std::string text_;  // of the lesson, with the figures as far as they are known
  std::set<std::size_t> revealed_;
  std::function<void(const std::string&)> show_;
  std::function<void(const QString&)> open_;
  QPushButton *before_, *after_;
  QComboBox* contents_;
  QTextBrowser* page_;
  Latest filling_;  // the last member, so that it stops before the others are destroyed
};

}  // namespace lockstep::gui
