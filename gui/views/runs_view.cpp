#include "gui/views/runs_view.hpp"

#include <QComboBox>
#include <QFileDialog>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QStandardPaths>
#include <QVBoxLayout>
#include <filesystem>

#include "core/format/format.hpp"
#include "gui/draw/chart_drawing.hpp"
#include "gui/views/canvas.hpp"
#include "gui/views/qt_text.hpp"
#include "gui/views/unsaved.hpp"

namespace lockstep::gui {
/// Charts of loss and throughput over the steps.
class RunsView::Charts final : public Canvas {
 public:
  Charts() {
    setAccessibleName("Loss and throughput");
    setMinimumHeight(180);
  }
  void show(std::vector<StepMetrics> steps) {
    steps_ = std::move(steps);
    invalidate();
  }
  const std::vector<StepMetrics>& steps() const { return steps_; }

 protected:
  DisplayList draw() const override {
    if (steps_.empty()) {
      DisplayList list;
      list.text(QRectF(rect()), "Loss and tokens/s of a real run", Ink::Faint, Align::Center);
      return list;
    }
    Chart loss{"loss", {}, Ink::Accent, false};
    Chart rate{"tokens/s", {}, Ink::Ok, true};
    for (const StepMetrics& step : steps_) {
      loss.points.emplace_back(step.step, step.loss);
      rate.points.emplace_back(step.step, step.tokens_per_s);
    }
    const double half = height() / 2.0;
    DisplayList list = draw_chart(loss, {0, 0, double(width()), half}, text());
    list.append(draw_chart(rate, {0, half, double(width()), half}, text()));
    return list;
  }

 private:
  std::vector<StepMetrics> steps_;
};

RunsView::RunsView(Session& session, QWidget* parent)
    : QWidget(parent), session_(session), live_([this] { show_live(); }) {
  setAccessibleName("Runs");
  folder_ = QStandardPaths::writableLocation(QStandardPaths::AppLocalDataLocation).toStdString() +
            "/runs";
  charts_ = new Charts;
  state_ = new QLabel;
  state_->setWordWrap(true);
  state_->setAccessibleName("State of the run");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(4, 4, 4, 4);
  layout->addWidget(make_buttons());
  layout->addWidget(state_);
  layout->addWidget(charts_, 2);
  layout->addWidget(make_list(), 1);
  connect(&session, &Session::runsChanged, this, [this] { show_runs(); });
  connect(&session, &Session::runChanged, this, [this] {
    show_runs();
    show_charts();
    show_document();
  });
  for (const auto signal : {&Session::slotsChanged, &Session::documentChanged}) {
    connect(&session, signal, this, [this] { show_runs(); });
  }
  show_runs();
  show_charts();
  show_document();
  show_live();
}

QWidget* RunsView::make_buttons() {
  auto* page = new QWidget;
  auto* lines = new QGridLayout(page);  // of two lines, because the panel may be narrow
  lines->setContentsMargins(0, 0, 0, 0);
  int column = 0;
  const auto button = [&](const char* label, const char* tip, auto&& action) {
    auto* b = new QPushButton(label);
    b->setToolTip(tip);
    connect(b, &QPushButton::clicked, this, action);
    lines->addWidget(b, 1, column++);
    return b;
  };
  backend_ = new QComboBox;
  backend_->setAccessibleName("Backend");
  for (const LiveRun::Way& way : LiveRun::ways()) backend_->addItem(qt(way.label));
  lines->addWidget(backend_, 0, 0);
  steps_ = new QSpinBox;
  steps_->setAccessibleName("Steps");
  steps_->setRange(1, 1'000'000);
  const auto name_unit = [this](int steps) { steps_->setSuffix(steps == 1 ? " step" : " steps"); };
  connect(steps_, &QSpinBox::valueChanged, this, name_unit);
  name_unit(steps_->value());
  lines->addWidget(steps_, 0, 1, 1, 2);
  start_ =
      button("Train", "Train the scenario for real, as a process of its own", [this] { start(); });
  stop_ =
      button("Stop", "End the run after its step; what it has is kept", [this] { live_.cancel(); });
  follow_ =
      button("Follow…", "Watch a run folder that another process writes", [this] { follow(); });
  return page;
}

QWidget* RunsView::make_list() {
  auto* page = new QWidget;
  auto* layout = new QVBoxLayout(page);
  layout->setContentsMargins(0, 0, 0, 0);
  list_ = new QListWidget;
  list_->setAccessibleName("Open runs");
  list_->setToolTip("Scenarios, runs and traces that are open; the one shown is chosen");
  connect(list_, &QListWidget::currentRowChanged, this, [this] {
    if (const auto item = chosen()) session_.show(*item);
  });
  layout->addWidget(list_, 1);
  auto* line = new QHBoxLayout;
  layout->addLayout(line);
  const auto button = [&](const char* label, const char* tip, auto&& action) {
    auto* b = new QPushButton(label);
    b->setToolTip(tip);
    connect(b, &QPushButton::clicked, this, action);
    line->addWidget(b);
  };
  button("Keep A", "Compare with this run as A", [this] { keep(Slot::A); });
  button("Keep B", "Compare with this run as B", [this] { keep(Slot::B); });
  button("Close", "Close it; files stay", [this] {
    const auto item = chosen();
    if (item && may_close(this, session_, *item)) session_.close(*item);
  });
  return page;
}

std::optional<OpenItem> RunsView::chosen() const {
  const int row = list_->currentRow();
  const std::vector<OpenItem> items = session_.items();
  if (row < 0 || row >= static_cast<int>(items.size())) return std::nullopt;
  return items[row];
}

void RunsView::keep(Slot slot) {
  if (const auto item = chosen(); item && item->run) session_.store(slot, item->run);
}

// ---------------------------------------------------------------- training

void RunsView::start() {
  const RunPtr run = session_.run();
  if (!run || !run->scenario || live_.active()) return;
  const std::vector<LiveRun::Way> ways = LiveRun::ways();
  live_.start(*run->scenario, ways[backend_->currentIndex()], steps_->value(), folder_);
}

void RunsView::follow() {
  const QString folder = QFileDialog::getExistingDirectory(this, "Follow a run folder");
  if (folder.isEmpty() || live_.active()) return;
  opened_.clear();  // what it has become since it was opened
  live_.follow(folder.toStdString());
}

void RunsView::show_live() {
  using State = LiveRun::State;
  const std::size_t done = live_.steps().size();
  QString text;
  switch (live_.state()) {
    case State::Idle:
      text = "No run is watched.";
      break;
    case State::Running:
    case State::Following:
      text = live_.state() == State::Running ? "Training" : "Following " + qt(live_.folder());
      text += live_.total_steps() > 0
                  ? QString(": step %1 of %2").arg(done).arg(live_.total_steps())
                  : QString(": %1 step%2").arg(done).arg(done == 1 ? "" : "s");
      break;
    case State::Finished:
    case State::Cancelled:
    case State::Failed:
      text = QString("%1 after %2 step%4: %3")
                 .arg(live_.state() == State::Failed ? "Failed" : "Ended")
                 .arg(done)
                 .arg(qt(live_.message()), done == 1 ? "" : "s");
      break;
  }
  state_->setText(text);
  show_charts();
  show_document();
  const bool ended = live_.state() == State::Finished || live_.state() == State::Cancelled;
  if (ended && opened_ != live_.folder() &&
      std::filesystem::exists(std::filesystem::path(live_.folder()) / "report.json")) {
    opened_ = live_.folder();
    session_.open(opened_);
  }
}

// ---------------------------------------------------------------- what it shows

/// Shows the charts of the run that trains now; else of the run that is shown, if it has trained;
/// else of the last one.
void RunsView::show_charts() {
  const RunPtr run = session_.run();
  const bool shown = !live_.active() && run && !run->metrics.empty();
  charts_->show(shown ? run->metrics : live_.steps());
}

const std::vector<StepMetrics>& RunsView::charted() const { return charts_->steps(); }

void RunsView::show_runs() {
  const QSignalBlocker quiet(list_);
  list_->clear();
  for (const OpenItem& item : session_.items()) {
    QString title = qt(item.title) + (item.modified ? " *" : "");
    const bool timed = item.run && item.run->report;
    if (timed) title += "  ·  step " + qt(time_text(item.run->report->step_time));
    for (const auto& [slot, letter] : {std::pair{Slot::A, "A"}, std::pair{Slot::B, "B"}}) {
      if (item.run && session_.slot(slot) == item.run) title = QString("[%1] ").arg(letter) + title;
    }
    list_->addItem(title);
    if (session_.is_shown(item)) list_->setCurrentRow(list_->count() - 1);
  }
}

void RunsView::show_document() {
  const RunPtr run = session_.run();
  const bool trainable =
      run && run->scenario && run->scenario->model.architecture != Architecture::Synthetic;
  start_->setEnabled(trainable && !live_.active());
  start_->setToolTip(trainable ? "Train the scenario for real, as a process of its own"
                               : "Given times alone cannot be trained: open a scenario of a model");
  stop_->setEnabled(live_.active());
  follow_->setEnabled(!live_.active());
  steps_->setEnabled(!live_.active());
  if (trainable && !live_.active() && run->simulated()) {
    steps_->setValue(run->scenario->training.steps);
  }
}

}  // namespace lockstep::gui
