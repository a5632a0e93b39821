#include "gui/views/timeline_panel.hpp"

#include <QApplication>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QToolButton>
#include <QVBoxLayout>

#include "gui/views/legend.hpp"
#include "gui/views/notice.hpp"
#include "gui/views/start_page.hpp"
#include "gui/views/timeline_view.hpp"

namespace lockstep::gui {

TimelinePanel::TimelinePanel(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      start_(new StartPage(session)),
      timeline_(new TimelineView(session)),
      bar_(new QWidget),
      filter_(new QLineEdit),
      search_(new QLineEdit),
      matches_(new QLabel),
      path_(new QToolButton),
      hover_(new QLabel) {
  setAccessibleName("Timeline with search");
  setFocusProxy(timeline_);

  filter_->setPlaceholderText("Filter rows: rank 3, pp1, gather");
  filter_->setAccessibleName("Filter the timeline's rows");
  filter_->setClearButtonEnabled(true);
  search_->setPlaceholderText("Search spans: F3, all-gather rank 2  (/)");
  search_->setAccessibleName("Search spans");
  search_->setClearButtonEnabled(true);
  search_->installEventFilter(this);
  matches_->setAccessibleName("Matches of the search");
  path_->setText("Critical path");
  path_->setCheckable(true);
  path_->setAutoRaise(true);
  path_->setToolTip("Mark the chain of operations that the step's length consists of (C)");
  hover_->setAccessibleName("Under the mouse");
  hover_->setTextFormat(Qt::PlainText);
  hover_->setContentsMargins(6, 0, 6, 0);
  hover_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);

  auto* bar = new QHBoxLayout(bar_);
  bar->setContentsMargins(4, 3, 4, 3);
  bar->setSpacing(8);
  bar->addWidget(filter_, 2);
  bar->addWidget(search_, 3);
  bar->addWidget(matches_);
  bar->addStretch(1);
  bar->addWidget(path_);
  auto* legend = new Legend(session);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 0, 0, 0);
  all->setSpacing(0);
  all->addWidget(start_, 1);
  all->addWidget(bar_);
  all->addWidget(new Notice(session));
  all->addWidget(timeline_, 1);
  all->addWidget(legend);
  all->addWidget(hover_);
  // Tab comes to the focus proxy of a widget at once, and passes over what lies before it.
  setTabOrder(timeline_, filter_);
  setTabOrder(filter_, search_);
  setTabOrder(search_, path_);

  connect(filter_, &QLineEdit::textChanged, this, [this](const QString& text) {
    LayoutChoice choice = session_.layout();
    choice.filter = text.toStdString();
    session_.set_layout(std::move(choice));
  });
  connect(&session, &Session::layoutChanged, this, [this] {
    const QString text = QString::fromStdString(session_.layout().filter);
    if (filter_->text() != text) filter_->setText(text);
  });
  connect(search_, &QLineEdit::textChanged, this, [this] { count_matches(); });
  connect(&session, &Session::runChanged, this, [this] { count_matches(); });
  connect(path_, &QToolButton::toggled, timeline_,
          [this](bool on) { timeline_->show_critical_path(on); });
  for (const auto signal : {&Session::runChanged, &Session::documentChanged}) {
    connect(&session, signal, this, [this, legend] {
      show_start();
      legend->setVisible(timeline_->isVisibleTo(this));
    });
  }
  show_start();
  legend->setVisible(timeline_->isVisibleTo(this));
  dim_when_outdated(*timeline_, session);
  timeline_->on_hover([this](const QString& words) { hover_->setText(words); });
}

void TimelinePanel::show_start() {
  const bool nothing = !session_.run() && !session_.has_document();
  const QWidget* focus = QApplication::focusWidget();
  const bool chosen = !nothing && !start_->isHidden() && (!focus || isAncestorOf(focus));
  start_->setVisible(nothing);
  for (QWidget* widget : {bar_, static_cast<QWidget*>(timeline_), static_cast<QWidget*>(hover_)}) {
    widget->setVisible(!nothing);
  }
  if (chosen) timeline_->setFocus();  // so that Space plays, and is not typed into the filter
}

QString TimelinePanel::commands_title() const { return timeline_->commands_title(); }

std::vector<Command> TimelinePanel::own_commands() {
  const auto focus = [](QLineEdit* edit) {
    edit->setFocus();
    edit->selectAll();
  };
  return {{"Search spans",
           {QKeySequence("/"), QKeySequence("Ctrl+F")},
           [this, focus] { focus(search_); }},
          {"Filter rows", {QKeySequence("Ctrl+L")}, [this, focus] { focus(filter_); }}};
}

std::vector<Command> TimelinePanel::commands() {
  std::vector<Command> list = timeline_->commands();
  for (Command& command : own_commands()) list.push_back(std::move(command));
  return list;
}

void TimelinePanel::keyPressEvent(QKeyEvent* event) {
  if (!run_command(own_commands(), *event)) QWidget::keyPressEvent(event);
}

std::vector<std::pair<QString, QString>> TimelinePanel::gestures() const {
  auto list = timeline_->gestures();
  list.push_back({"Enter, Shift + Enter in the search", "next and previous match"});
  return list;
}

void TimelinePanel::find(bool forward) {
  if (!timeline_->find(search_->text().toStdString(), forward)) matches_->setText("no match");
}

void TimelinePanel::count_matches() {
  const std::string words = search_->text().toStdString();
  const RunPtr run = session_.run();
  if (words.empty() || !run) {
    matches_->clear();
    return;
  }
  const std::size_t count = SpanQuery(*run, words).count();
  matches_->setText(count == 0   ? QString("no match")
                    : count == 1 ? QString("1 match")
                                 : QString("%L1 matches").arg(count));
}

bool TimelinePanel::eventFilter(QObject* watched, QEvent* event) {
  if (watched == search_ && event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
      find(!(key->modifiers() & Qt::ShiftModifier));
      return true;
    }
    if (key->key() == Qt::Key_Escape) {
      timeline_->setFocus();
      return true;
    }
  }
  return QWidget::eventFilter(watched, event);
}

}  // namespace lockstep::gui
