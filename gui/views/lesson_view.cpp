#include "gui/views/lesson_view.hpp"

#include <QComboBox>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QPushButton>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QTextBrowser>
#include <QUrl>
#include <QVBoxLayout>

#include "core/session/simulation.hpp"
#include "gui/views/qt_text.hpp"
#include "gui/views/signs.hpp"
#include "gui/views/start_page.hpp"

namespace lockstep::gui {
namespace {

/// Whether two paths are the same file, however they are written.
bool same_file(const std::string& a, const std::string& b) {
  const QFileInfo file(qt(a));
  return !a.empty() && file.exists() && file == QFileInfo(qt(b));
}

}  // namespace

LessonView::LessonView(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      before_(new QPushButton),
      after_(new QPushButton),
      contents_(new QComboBox),
      page_(new QTextBrowser),
      filling_(*this) {
  setAccessibleName("Lesson");
  setFocusProxy(page_);
  open_ = [this](const QString& path) { session_.open(path.toStdString()); };
  if (Result<std::vector<Lesson>> course = read_course(StartPage::course().toStdString())) {
    course_ = std::move(*course);
  }
  set_sign(*before_, Sign::StepBack);
  set_sign(*after_, Sign::StepForward);
  before_->setAccessibleName("The lesson before");
  after_->setAccessibleName("The next lesson");
  contents_->setAccessibleName("Lessons");
  contents_->setPlaceholderText("Choose a lesson");
  contents_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  for (std::size_t i = 0; i < course_.size(); ++i) {
    contents_->addItem(QString("%1. %2").arg(i + 1).arg(qt(course_[i].title)));
  }
  page_->setAccessibleName("The page of the lesson");
  page_->setOpenLinks(false);
  page_->setFrameShape(QFrame::NoFrame);
  for (QPushButton* button : {before_, after_}) {
    button->setToolTip(button->accessibleName());
    button->setFixedWidth(fontMetrics().horizontalAdvance("MM") + 12);
  }
  auto* line = new QHBoxLayout;
  line->addWidget(before_);
  line->addWidget(contents_, 1);
  line->addWidget(after_);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(4, 4, 4, 4);
  all->addLayout(line);
  all->addWidget(page_, 1);
  connect(before_, &QPushButton::clicked, this, [this] { go(at_ - 1); });
  connect(after_, &QPushButton::clicked, this, [this] { go(at_ + 1); });
  connect(contents_, &QComboBox::activated, this, [this](int lesson) { go(lesson); });
  connect(page_, &QTextBrowser::anchorClicked, this, [this](const QUrl& link) { follow(link); });
  connect(&session, &Session::documentChanged, this, [this] { find_lesson(); });
  show_page();
}

QString LessonView::words() const { return page_->toPlainText(); }

void LessonView::go(int lesson) {
  if (lesson < 0 || lesson >= static_cast<int>(course_.size())) return;
  open_(qt(course_[static_cast<std::size_t>(lesson)].scenario));
}

void LessonView::find_lesson() {
  int found = -1;
  for (std::size_t i = 0; i < course_.size() && found < 0; ++i) {
    if (same_file(course_[i].scenario, session_.path())) found = static_cast<int>(i);
  }
  if (found == at_) return;
  at_ = found;
  revealed_.clear();
  if (lesson()) fill();
  show_page();
  page_->verticalScrollBar()->setValue(0);
  if (lesson() && begin_) begin_();
}

/// Has the figures of the page simulated.
void LessonView::fill() {
  text_ = without_figures(lesson()->text);
  filling_.submit([this, lesson = *lesson()](const Cancelled& cancelled) -> Latest::Apply {
    const auto simulate = [&](const Scenario& scenario) -> Result<Report> {
      if (cancelled) return invalid("no longer wanted");
      return simulated_step(scenario);
    };
    Result<std::string> text = fill_in(lesson, simulate);
    return [this, text = std::move(text)] {
      text_ = text ? *text : text_ + "\n\n⚠ " + to_string(text.error());
      show_page();
    };
  });
}

void LessonView::show_page() {
  const QSignalBlocker quiet(contents_);
  contents_->setCurrentIndex(at_);
  before_->setEnabled(at_ > 0);
  after_->setEnabled(at_ + 1 < static_cast<int>(course_.size()));
  if (!lesson()) {
    page_->setMarkdown(course_.empty()
                           ? "The lessons are a folder of scenarios, `scenarios/course`, which is "
                             "not found beside this program or in the working directory."
                           : "A lesson's page comes here: what to look at, what to try, and what "
                             "to answer. Choose one above.");
    return;
  }
  const LessonParts parts = lesson_parts(text_);
  std::string text = "## " + lesson()->title + "\n\n" + parts.before + "\n\n## Questions\n\n";
  for (std::size_t i = 0; i < parts.questions.size(); ++i) {
    text += "**" + parts.questions[i].question + "**\n\n";
    text += revealed_.contains(i) ? parts.questions[i].answer
                                  : "[Show the answer](answer:" + std::to_string(i) + ")";
    text += "\n\n";
  }
  const int scroll = page_->verticalScrollBar()->value();
  page_->setMarkdown(qt(text));
  page_->verticalScrollBar()->setValue(scroll);
}

void LessonView::follow(const QUrl& link) {
  const QString action = link.scheme(), what = link.path(QUrl::FullyDecoded);
  const RunPtr run = session_.run();
  if (action == "answer") {
    revealed_.insert(what.toULongLong());
    show_page();
  } else if (action == "set" && session_.has_document()) {
    Document document = session_.document();
    document.overrides.clear();
    for (const QString& value : what.split('&', Qt::SkipEmptyParts)) {
      put_override(document.overrides, value.toStdString());
    }
    session_.edit(std::move(document));
  } else if (action == "view" && show_) {
    show_(what.toStdString());
  } else if (action == "play" && run) {
    session_.set_cursor(run->lanes.begin());
    session_.set_playing(true);
  } else if (action == "at" && run) {
    const SimTime begin = run->lanes.begin(), whole = run->lanes.end() - begin;
    session_.set_playing(false);
    session_.set_cursor(begin + to_sim_time(what.chopped(1).toDouble() / 100 * to_seconds(whole)));
  }
}

}  // namespace lockstep::gui
