// Tests the course in the window: every page opens with its scenario, its figures are there, its
// links do what they say, and its questions have answers.
#include <QComboBox>
#include <QListWidget>
#include <QPushButton>
#include <QRegularExpression>
#include <QTest>
#include <QTextBrowser>
#include <QUrl>

#include "gui/views/lesson_view.hpp"
#include "gui/views/main_window.hpp"
#include "tests/gui/application.hpp"

namespace lockstep::gui {
namespace {

/// The targets of the links of a lesson's page.
std::vector<QUrl> links_of(const Lesson& lesson) {
  static const QRegularExpression link(R"(\]\(((?:set|view|play|at):[^)]*)\))");
  std::vector<QUrl> found;
  auto matches = link.globalMatch(QString::fromStdString(lesson.text));
  while (matches.hasNext()) found.push_back(QUrl(matches.next().captured(1)));
  return found;
}

struct Window {
  Window() : window(session) {
    test::application();
    window.resize(1366, 768);
    window.show();
  }
  LessonView& view() { return *static_cast<LessonView*>(window.view("lesson")); }
  void open(const Lesson& lesson) {
    window.open(QString::fromStdString(lesson.scenario));
    test::wait_until_idle(session);
  }
  Session session;
  MainWindow window;
};

TEST_CASE("the page of every lesson opens with its figures, and every link works", "[gui][views]") {
  test::application();
  Window w;
  const std::vector<Lesson>& course = w.view().course();
  REQUIRE(course.size() >= 12);
  for (const Lesson& lesson : course) {
    INFO(lesson.name);
    w.open(lesson);
    REQUIRE(w.view().lesson() == &lesson);
    CHECK(w.view().isVisible());
    const std::string page = w.view().words().toStdString();
    INFO(page);
    CHECK_THAT(page, ContainsSubstring(lesson.title) && ContainsSubstring("Questions") &&
                         !ContainsSubstring("…") && !ContainsSubstring("⚠") &&
                         !ContainsSubstring("{"));
    const std::vector<QUrl> links = links_of(lesson);
    CHECK(links.size() >= 4);
    for (const QUrl& link : links) {
      INFO(link.toString().toStdString());
      const RunPtr before = w.session.run();
      const std::vector<std::string> overrides = w.session.document().overrides;
      w.view().follow(link);
      const std::string what = link.path(QUrl::FullyDecoded).toStdString();
      if (link.scheme() == "view") {
        REQUIRE(w.window.view(what) != nullptr);
        CHECK(w.window.view(what)->isVisible());
      } else if (link.scheme() == "at") {
        const double part = to_seconds(w.session.cursor() - before->lanes.begin()).v /
                            to_seconds(before->lanes.end() - before->lanes.begin()).v;
        CHECK(100 * part == Approx(QString::fromStdString(what).chopped(1).toDouble()).margin(0.1));
      } else if (link.scheme() == "play") {
        CHECK(w.session.playing());
        w.session.set_playing(false);
      } else {
        test::wait_until_idle(w.session);
        CHECK(w.session.errors().empty());
        CHECK(w.session.document().overrides != overrides);
        CHECK(w.session.run() != before);
      }
    }
    CHECK(w.session.document().overrides.empty());  // "Back to the lesson" is the last
  }
}

TEST_CASE("an answer is hidden until it is asked for", "[gui][views]") {
  test::application();
  Window w;
  w.window.open(QString::fromStdString(test::scenario_path("lessons/pipeline.toml")));
  test::wait_until_idle(w.session);
  REQUIRE(w.view().lesson() != nullptr);
  CHECK_THAT(w.view().words().toStdString(),
             ContainsSubstring("Show the answer") && !ContainsSubstring("3/11"));
  w.view().follow(QUrl("answer:0"));
  // What the answer says is what the status line says.
  const QString bubble =
      QString("%1 %").arg(100 * w.session.run()->report->bubble_fraction, 0, 'f', 1);
  CHECK(bubble == "27.3 %");
  CHECK_THAT(w.view().words().toStdString(),
             ContainsSubstring(bubble.toStdString() + ", and (4 − 1)/(8 + 4 − 1) = 3/11"));
}

TEST_CASE("arrows and the list lead through the course", "[gui][views]") {
  test::application();
  Window w;
  auto* contents = w.view().findChild<QComboBox*>();
  CHECK(contents->count() == static_cast<int>(w.view().course().size()));
  CHECK(w.view().lesson() == nullptr);
  w.open(w.view().course().front());
  CHECK(contents->currentIndex() == 0);
  for (QPushButton* button : w.view().findChildren<QPushButton*>()) {
    if (button->accessibleName() == "The lesson before") CHECK_FALSE(button->isEnabled());
    if (button->accessibleName() == "The next lesson") button->click();
  }
  test::wait_until_idle(w.session);
  CHECK(w.view().lesson() == &w.view().course()[1]);
  // Another scenario has no page.
  w.window.open(QString::fromStdString(test::scenario_path("schedules/1f1b-p4-m8.toml")));
  test::wait_until_idle(w.session);
  CHECK(w.view().lesson() == nullptr);
  CHECK_THAT(w.view().words().toStdString(), ContainsSubstring("Choose one above"));
}

TEST_CASE("a lesson that is clicked on the start page has its page, and Space plays it",
          "[gui][views]") {
  test::application();
  Window w;
  test::show_active(w.window);
  QListWidget& lessons = test::named<QListWidget>(w.window, "Lessons");
  REQUIRE(lessons.count() == static_cast<int>(w.view().course().size()));
  const QRect third = lessons.visualItemRect(lessons.item(2));
  QTest::mouseClick(lessons.viewport(), Qt::LeftButton, {}, third.center());
  test::wait_until_idle(w.session);
  CHECK(w.view().lesson() == &w.view().course()[2]);
  REQUIRE(w.window.focusWidget() != nullptr);
  QTest::keyClick(w.window.focusWidget(), Qt::Key_Space);
  CHECK(w.session.playing());
}

TEST_CASE("a click on a link of the page is followed", "[gui][views]") {
  test::application();
  Window w;
  w.open(w.view().course()[5]);
  auto* page = w.view().findChild<QTextBrowser*>();
  REQUIRE(page != nullptr);
  emit page->anchorClicked(QUrl("set:parallelism.pipeline_parallel_microbatches=16"));
  test::wait_until_idle(w.session);
  CHECK(w.session.document().overrides ==
        std::vector<std::string>{"parallelism.pipeline_parallel_microbatches=16"});
  CHECK(w.session.run()->report->bubble_fraction == Approx(3.0 / 19).margin(0.005));
}

}  // namespace
}  // namespace lockstep::gui
