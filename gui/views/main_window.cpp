#include "gui/views/main_window.hpp"

#include <QApplication>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QLabel>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QStatusBar>

#include "core/format/format.hpp"
#include "gui/draw/theme.hpp"
#include "gui/views/view_list.hpp"

namespace lockstep::gui {

MainWindow::MainWindow(Session& session)
    : session_(session), status_(new QLabel(this)), busy_(new QLabel(this)) {
  setObjectName("main");
  setAcceptDrops(true);
  setDockNestingEnabled(true);
  make_views();
  make_menus();
  statusBar()->addWidget(status_, 1);
  statusBar()->addPermanentWidget(busy_);
  connect(&session, &Session::runChanged, this, [this] { show_state(); });
  connect(&session, &Session::errorsChanged, this, [this] { show_state(); });
  connect(&session, &Session::documentChanged, this, [this] { show_state(); });
  connect(&session, &Session::busyChanged, this, [this] { show_state(); });
  connect(&session, &Session::failed, this,
          [this](const QString& message) { QMessageBox::warning(this, "Lockstep", message); });
  reset_layout();
  show_state();
}

void MainWindow::make_views() {
  for (const ViewEntry& entry : view_list()) {
    QWidget* view = entry.make(session_);
    view->setObjectName(entry.name);
    if (entry.area == Qt::NoDockWidgetArea) {
      setCentralWidget(view);
      continue;
    }
    auto* dock = new QDockWidget(entry.title, this);
    dock->setObjectName(entry.name);
    dock->setWidget(view);
    docks_[entry.name] = dock;
  }
}

void MainWindow::reset_layout() {
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
}

QWidget* MainWindow::view(const std::string& name) const {
  if (centralWidget()->objectName().toStdString() == name) return centralWidget();
  const auto dock = docks_.find(name);
  return dock == docks_.end() ? nullptr : dock->second->widget();
}

bool MainWindow::show_view(const std::string& name) {
  for (const ViewEntry& entry : view_list()) {
    if (entry.name != name) continue;
    if (entry.area == Qt::NoDockWidgetArea) {
      centralWidget()->setFocus();
      return true;
    }
    QDockWidget* dock = docks_.at(name);
    dock->show();
    dock->raise();
    dock->widget()->setFocus();
    return true;
  }
  return false;
}

void MainWindow::set_theme(bool dark) {
  const QPalette palette = palette_of(dark ? dark_theme() : light_theme());
  QApplication::setPalette(palette);
}

void MainWindow::make_menus() {
  QMenu* file = menuBar()->addMenu("&File");
  file->addAction("&Open…", QKeySequence::Open, this, [this] {
    const QString path = QFileDialog::getOpenFileName(
        this, "Open", QString(), "Scenarios and traces (*.toml *.json *.json.gz);;All files (*)");
    if (!path.isEmpty()) session_.open(path.toStdString());
  });
  file->addAction("Open &run folder…", this, [this] {
    const QString path = QFileDialog::getExistingDirectory(this, "Open a run folder");
    if (!path.isEmpty()) session_.open(path.toStdString());
  });
  file->addSeparator();
  file->addAction("&Quit", QKeySequence::Quit, this, [this] { close(); });

  QMenu* edit = menuBar()->addMenu("&Edit");
  edit->addAction("&Undo", QKeySequence::Undo, this, [this] { session_.undo(); });
  edit->addAction("&Redo", QKeySequence::Redo, this, [this] { session_.redo(); });

  QMenu* view = menuBar()->addMenu("&View");
  for (const auto& [name, dock] : docks_) view->addAction(dock->toggleViewAction());
  view->addSeparator();
  view->addAction("&Light", this, [this] { set_theme(false); });
  view->addAction("&Dark", this, [this] { set_theme(true); });
  view->addAction("&Reset panels", this, [this] { reset_layout(); });
}

void MainWindow::show_state() {
  const RunPtr run = session_.run();
  QString title = "Lockstep";
  if (run)
    title =
        QString::fromStdString(run->title) + (session_.is_modified() ? " *" : "") + " — Lockstep";
  setWindowTitle(title);
  busy_->setText(session_.busy() ? "working…" : "");
  QString text;
  if (!session_.errors().empty()) {
    text = QString::fromStdString(to_string(session_.errors().front()));
    const auto more = session_.errors().size() - 1;
    if (more > 0) text += QString(" (and %1 more)").arg(more);
  } else if (run) {
    text = QString("%1 ranks · %2 spans").arg(run->world_size()).arg(run->lanes.spans());
    if (run->report) {
      text += QString(" · step %1 · bubble %2")
                  .arg(QString::fromStdString(time_text(run->report->step_time)),
                       QString::fromStdString(percent_text(run->report->bubble_fraction)));
    }
    for (const std::string& note : run->notes) text += " · " + QString::fromStdString(note);
  }
  status_->setText(text);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls()) {
    if (url.isLocalFile()) session_.open(url.toLocalFile().toStdString());
  }
}

}  // namespace lockstep::gui
