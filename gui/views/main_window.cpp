#include "gui/views/main_window.hpp"

#include <QApplication>
#include <QCloseEvent>
#include <QDir>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QLabel>
#include <QMimeData>
#include <QProgressBar>
#include <QPushButton>
#include <QResizeEvent>
#include <QScreen>
#include <QScrollArea>
#include <QSettings>
#include <QStatusBar>
#include <QTimer>
#include <QToolBar>
#include <algorithm>

#include "core/analysis/trace_report.hpp"
#include "core/format/format.hpp"
#include "gui/draw/theme.hpp"
#include "gui/views/lesson_view.hpp"
#include "gui/views/plain_labels.hpp"
#include "gui/views/start_page.hpp"
#include "gui/views/timeline_panel.hpp"
#include "gui/views/unsaved.hpp"
#include "gui/views/view_list.hpp"

namespace lockstep::gui {
namespace {

constexpr int kMostRecent = 10;
// Of the panels on the right: a narrow window gives a third, but what a row of the form needs.
constexpr int kSideWidth = 360, kLeastSideWidth = 310;
constexpr QSize kLeastPanel(200, 120);
constexpr int kFrameEdge = 4, kTitleBar = 32;  // around a window, where its manager draws them
constexpr int kBusyAfter = 200;                // ms; work that takes less shows no progress

/// "1 rank", "1,024 ranks".
QString counted(qlonglong count, const char* what) {
  return QString("%L1 %2%3").arg(count).arg(what, count == 1 ? "" : "s");
}

/// Words in a tool bar, which does not ask how high a label is for the width that it gives it, and
/// takes a line for a paragraph.
class MessageLabel final : public QLabel {
 public:
  QSize sizeHint() const override { return {kLeast, heightForWidth(std::max(width(), kLeast))}; }
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void resizeEvent(QResizeEvent* event) override {
    QLabel::resizeEvent(event);
    if (event->size().width() != event->oldSize().width()) updateGeometry();
  }

 private:
  static constexpr int kLeast = 100;
};

}  // namespace

MainWindow::MainWindow(Session& session)
    : session_(session),
      message_bar_(new QToolBar("Messages")),
      message_(new MessageLabel),
      status_(new QLabel),
      busy_(new QProgressBar),
      cancel_(new QPushButton("Cancel")),
      busy_soon_(new QTimer(this)),
      writing_(*this) {
  make_labels_plain();
  setObjectName("main");
  setAcceptDrops(true);
  setDockNestingEnabled(true);
  make_views();
  make_menus();
  make_status();
  for (auto signal : {&Session::runChanged, &Session::errorsChanged, &Session::documentChanged,
                      &Session::busyChanged}) {
    connect(&session, signal, this, [this] { show_state(); });
  }
  connect(&session, &Session::marksChanged, this, [this] { keep_views(); });
  connect(&session, &Session::profileChanged, this, [this] { show_profile(); });
  connect(&session, &Session::failed, this, [this](const QString& message) { tell(message); });
  static_cast<TimelinePanel*>(centralWidget())->start().on_open([this](const QString& path) {
    open(path);
  });
  auto* lesson = static_cast<LessonView*>(view("lesson"));
  lesson->on_open([this](const QString& path) { open(path); });
  lesson->on_begin([this] {
    if (!asked_for_views_) bring_up("lesson");
  });
  lesson->on_show([this](const std::string& name) { bring_up(name); });
  reset_layout();
  put_panels_away();
  show_state();
}

void MainWindow::make_views() {
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
  for (const ViewEntry& entry : view_list()) {
    QWidget* view = entry.make(session_);
    view->setObjectName(entry.name);
    if (entry.area == Qt::NoDockWidgetArea) {
      setCentralWidget(view);
      continue;
    }
    auto* dock = new QDockWidget(entry.title, this);
    dock->setObjectName(entry.name + std::string("-dock"));
    dock->setAccessibleName(entry.title);
    auto* scroll = new QScrollArea;  // so that a panel is reachable where it has no room
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setWidget(view);
    scroll->setFocusPolicy(Qt::NoFocus);  // what is in it has the keyboard
    scroll->setFocusProxy(view);
    scroll->setMinimumSize(kLeastPanel);
    dock->setWidget(scroll);
    views_[entry.name] = view;
    docks_[entry.name] = dock;
  }
}

void MainWindow::make_status() {
  message_->setWordWrap(true);
  message_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  message_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  message_->setAccessibleName("Message");
  message_->setContentsMargins(8, 4, 8, 4);
  message_bar_->setObjectName("messages");
  message_bar_->setMovable(false);
  message_bar_->addWidget(message_);
  QAction* close = message_bar_->addAction("✕", message_bar_, &QWidget::hide);
  close->setToolTip("Close the message");
  QWidget* button = message_bar_->widgetForAction(close);
  button->setFocusPolicy(Qt::TabFocus);  // a tool bar's buttons are not for the keyboard otherwise
  button->setAccessibleName(close->toolTip());
  message_bar_->toggleViewAction()->setVisible(false);
  addToolBar(Qt::TopToolBarArea, message_bar_);
  message_bar_->hide();

  busy_->setRange(0, 0);
  busy_->setMaximumWidth(120);
  busy_->setAccessibleName("Working in the background");
  cancel_->setAccessibleName("Cancel the background work");
  connect(cancel_, &QPushButton::clicked, this, [this] { session_.cancel(); });
  busy_soon_->setInterval(kBusyAfter);
  connect(busy_soon_, &QTimer::timeout, this, [this] {
    if (!session_.busy()) busy_soon_->stop();
    busy_->setVisible(session_.busy());
    cancel_->setVisible(session_.busy());
    const int percent = session_.progress();
    busy_->setRange(0, percent < 0 ? 0 : 100);
    busy_->setValue(std::max(percent, 0));
  });
  status_->setAccessibleName("Status");
  status_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  statusBar()->addWidget(status_, 1);
  statusBar()->addPermanentWidget(busy_);
  statusBar()->addPermanentWidget(cancel_);
}

/// To Qt, panels that lie behind others in a stack are visible: Tab led through all of them, and
/// the keyboard was nowhere to be seen.
bool MainWindow::focusNextPrevChild(bool next) {
  const auto behind = [this](const QWidget* widget) {
    return std::any_of(docks_.begin(), docks_.end(), [&](const auto& entry) {
      return entry.second->isAncestorOf(widget) && entry.second->visibleRegion().isEmpty();
    });
  };
  const QWidget* const before = focusWidget();
  constexpr int kMostStops = 2000;  // more than there are, if all of them should lie behind
  for (int i = 0; i < kMostStops && QMainWindow::focusNextPrevChild(next); ++i) {
    QWidget* const now = focusWidget();
    if (now != before && behind(now)) continue;
    // Qt scrolls to what Tab reaches within a panel, but not to where it enters one.
    for (QWidget* around = now; around; around = around->parentWidget()) {
      if (auto* area = qobject_cast<QScrollArea*>(around)) area->ensureWidgetVisible(now);
    }
    return true;
  }
  return false;
}

void MainWindow::tell(const QString& message) {
  message_->setText("⚠ " + message);
  message_bar_->show();
}

void MainWindow::reset_layout() {
  bring_panels_back();
  std::map<Qt::DockWidgetArea, QDockWidget*> first;
  for (const ViewEntry& entry : view_list()) {
    if (entry.area == Qt::NoDockWidgetArea) continue;
    QDockWidget* dock = docks_.at(entry.name);
    dock->setFloating(false);
    addDockWidget(entry.area, dock);
    dock->setVisible(entry.shown);
    if (!entry.shown) continue;
    const auto [it, inserted] = first.try_emplace(entry.area, dock);
    if (!inserted) tabifyDockWidget(it->second, dock);
  }
  for (const auto& [area, dock] : first) dock->raise();
  size_docks();
}

/// A first start takes the screen that there is, less what the window manager puts around it.
void MainWindow::fit_screen() {
  const QRect room = screen()->availableGeometry();
  resize(room.size() - QSize(2 * kFrameEdge, kTitleBar + kFrameEdge));
  move(room.topLeft() + QPoint(kFrameEdge, 0));  // of the frame, whose title bar comes first
}

void MainWindow::size_docks() {
  for (const ViewEntry& entry : view_list()) {
    const auto dock = docks_.find(entry.name);
    if (dock == docks_.end()) continue;
    if (entry.area == Qt::BottomDockWidgetArea) {
      resizeDocks({dock->second}, {height() * 3 / 8}, Qt::Vertical);
    } else {
      resizeDocks({dock->second}, {std::clamp(width() / 3, kLeastSideWidth, kSideWidth)},
                  Qt::Horizontal);
    }
  }
}

/// Docks get their sizes here, because they have none before the window has one.
void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (!docks_restored_) size_docks();
}

/// Panels have nothing to show while nothing is open: they leave their room to the start page.
void MainWindow::put_panels_away() {
  if (panels_away_) return;
  arranged_ = saveState();
  panels_away_ = true;
  for (const auto& [name, dock] : docks_) dock->hide();
}

void MainWindow::bring_panels_back() {
  if (!panels_away_) return;
  panels_away_ = false;
  QWidget* focus = QApplication::focusWidget();
  restoreState(arranged_);
  if (focus) focus->setFocus();  // which restoring may give to a panel
  if (!docks_restored_ && isVisible()) size_docks();
}

QWidget* MainWindow::view(const std::string& name) const {
  if (centralWidget()->objectName().toStdString() == name) return centralWidget();
  const auto view = views_.find(name);
  return view == views_.end() ? nullptr : view->second;
}

bool MainWindow::show_view(const std::string& name) {
  QWidget* widget = view(name);
  if (!widget) return false;
  bring_up(name);
  widget->setFocus();
  return true;
}

/// Brings to the front what says most of a trace from elsewhere, unless the user asked for views.
void MainWindow::show_profile() {
  if (asked_for_views_) return;
  bring_up(session_.run()->trace.spans.empty() ? "memory" : "summary");
}

void MainWindow::bring_up(const std::string& name) {
  const auto dock = docks_.find(name);
  if (dock == docks_.end()) return;
  bring_panels_back();
  dock->second->show();
  dock->second->raise();
}

void MainWindow::set_theme(bool dark) {
  dark_ = dark;
  QApplication::setPalette(palette_of(dark ? dark_theme() : light_theme()));
  if (settings_) settings_->setValue("dark", dark);
}

// ---------------------------------------------------------------- what is remembered

void MainWindow::remember(QSettings& settings) {
  settings_ = &settings;
  const bool system_dark = theme_for(QApplication::palette()).dark;
  set_theme(settings.value("dark", system_dark).toBool());
  if (!restoreGeometry(settings.value("geometry").toByteArray())) fit_screen();
  const bool away = panels_away_;
  bring_panels_back();
  docks_restored_ = restoreState(settings.value("docks").toByteArray());
  if (away) put_panels_away();
  message_bar_->hide();
  show_recent();
  std::map<std::string, ViewState> views;
  const QVariantMap kept = settings.value("views").toMap();
  for (auto it = kept.begin(); it != kept.end(); ++it) {
    views[it.key().toStdString()] = parse_view_state(it.value().toString().toStdString());
  }
  session_.set_views(std::move(views));
}

/// Saves what was arranged and marked in the recent files.
void MainWindow::keep_views() {
  if (!settings_) return;
  const QStringList recent = recent_files();
  QVariantMap kept;
  for (const auto& [path, state] : session_.views()) {
    const QString name = QString::fromStdString(path);
    if (recent.contains(name)) kept[name] = QString::fromStdString(to_json(state));
  }
  settings_->setValue("views", kept);
}

QStringList MainWindow::recent_files() const {
  return settings_ ? settings_->value("recent").toStringList() : QStringList();
}

QString MainWindow::keep_changes_in(const QString& folder) {
  QStringList names, left_alone;
  for (const auto& [path, simulated] : session_.keep_changes_in(folder)) {
    names << (path.empty() ? "a new scenario" : QString::fromStdString(path));
    if (!simulated) left_alone << names.back();
  }
  if (names.isEmpty()) return {};
  QString text =
      "Lockstep was stopped before changes were saved. They are open again, and still not saved: " +
      names.join(", ") + ".";
  if (!left_alone.isEmpty()) {
    text +=
        " More than once it was stopped while this was open, which is therefore not simulated "
        "before you change it: " +
        left_alone.join(", ") + ".";
  }
  return text;
}

void MainWindow::open(const QString& name) {
  // Recent files need absolute paths, and one file one name.
  const QString path = QDir::cleanPath(QFileInfo(name).absoluteFilePath());
  message_bar_->hide();
  session_.open(path.toStdString());
  keep_recent(path);
}

void MainWindow::keep_recent(const QString& path) {
  if (!settings_) return;
  QStringList recent = recent_files();
  recent.removeAll(path);
  recent.prepend(path);
  while (recent.size() > kMostRecent) recent.removeLast();
  settings_->setValue("recent", recent);
  show_recent();
}

void MainWindow::closeEvent(QCloseEvent* event) {
  if (!may_close_all(this, session_)) return event->ignore();
  if (settings_) {
    settings_->setValue("geometry", saveGeometry());
    settings_->setValue("docks", panels_away_ ? arranged_ : saveState());
    keep_views();
  }
  event->accept();
}

// ---------------------------------------------------------------- state, drag and drop

void MainWindow::show_state() {
  const RunPtr run = session_.run();
  QString title = "Lockstep";
  const bool something = run || session_.has_document();
  if (something && !something_open_) bring_panels_back();
  if (!something && something_open_) put_panels_away();
  something_open_ = something;
  if (something) {
    const std::string name = run ? run->title : session_.path();
    title = (name.empty() ? "New scenario" : QString::fromStdString(name)) +
            (session_.is_modified() ? " *" : "") + " — Lockstep";
  }
  setWindowTitle(title);
  if (undo_) {
    undo_->setEnabled(session_.can_undo());
    redo_->setEnabled(session_.can_redo());
    save_->setEnabled(session_.has_document());
  }
  if (!session_.busy()) {
    busy_->hide();
    cancel_->hide();
  } else if (!busy_soon_->isActive()) {
    busy_soon_->start();
  }
  QString text;
  if (!session_.errors().empty()) {
    text = "⚠ " + QString::fromStdString(to_string(session_.errors().front()));
    const auto more = session_.errors().size() - 1;
    if (more > 0) text += QString(" (and %1 more)").arg(more);
  } else if (run) {
    text = counted(run->world_size(), "rank") + " · " +
           counted(static_cast<qlonglong>(run->lanes.spans()), "span");
    if (run->report && run->report->step_time.v > 0) {
      text += " · step " + QString::fromStdString(time_text(run->report->step_time));
      if (tells_device_work(*run->report)) {
        text += " · bubble " + QString::fromStdString(percent_text(run->report->bubble_fraction));
      }
    }
    if (run->too_large) text = "⚠ does not fit · " + text;
    for (const std::string& note : run->notes) text += " · " + QString::fromStdString(note);
  }
  status_->setText(text);
  status_->setToolTip(text);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls()) {
    if (url.isLocalFile()) open(url.toLocalFile());
  }
}

}  // namespace lockstep::gui
