#include "gui/views/compare_view.hpp"

#include <QAbstractItemView>
#include <QComboBox>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QMouseEvent>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSplitter>
#include <QTabBar>
#include <QTableView>
#include <QVBoxLayout>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"
#include "gui/draw/comparison_drawing.hpp"
#include "gui/draw/wrapped_text.hpp"
#include "gui/model/run/describe.hpp"
#include "gui/model/run/open_runs.hpp"
#include "gui/model/run/run_names.hpp"
#include "gui/model/session.hpp"
#include "gui/views/canvas.hpp"
#include "gui/views/rows_table.hpp"
#include "gui/views/signs.hpp"

namespace lockstep::gui {
namespace {

/// The runs to choose from: the open ones, then those that only a slot keeps.
std::vector<RunPtr> choices(const Session& session) {
  std::vector<RunPtr> runs = session.runs();
  for (const Slot slot : {Slot::A, Slot::B}) {
    const RunPtr kept = session.slot(slot);
    if (kept && std::find(runs.begin(), runs.end(), kept) == runs.end()) runs.push_back(kept);
  }
  return runs;
}

}  // namespace

class CompareView::Picture final : public Canvas {
 public:
  explicit Picture(CompareView& view) : view_(view) {
    setAccessibleName("The two steps on one time scale, and what they consist of");
    setFocusPolicy(Qt::NoFocus);
    setMinimumSize(320, 150);
  }
  void refresh() {
    std::string words;
    if (const ComparisonPtr& model = view_.model_) {
      words = model->conclusion;
      for (const StepCause part : StepCauses::ids()) {
        words += "\n" + std::string(to_string(part)) + ": " + time_text(model->parts_a[part]) +
                 ", " + time_text(model->parts_b[part]);
      }
    }
    setAccessibleDescription(QString::fromStdString(words));
    invalidate();
  }
  void show(ComparisonWindow window) {
    window_ = window;
    invalidate();
  }
  const ComparisonWindow& window() const { return window_; }

 protected:
  DisplayList draw() const override {
    if (view_.model_) return draw_comparison(*view_.model_, window_, size(), text());
    DisplayList list;
    write_hint(list, QRectF(rect()),
               "Open a second run or trace, or keep one as A or B, to compare two", text());
    return list;
  }
  void wheelEvent(QWheelEvent* event) override {
    if (!view_.model_) return;
    const ComparisonFrame f = frame();
    const double notches = event->angleDelta().y() / 120.0;
    show_axis(f.axis.zoomed(std::pow(kWheelZoom, notches), event->position().x() - f.a.rows.x(),
                            f.axis.length()));
    event->accept();
  }
  void mousePressEvent(QMouseEvent* event) override { pressed_ = last_ = event->position(); }
  void mouseMoveEvent(QMouseEvent* event) override {
    if (!view_.model_) return;
    if (event->buttons() & (Qt::LeftButton | Qt::MiddleButton)) {
      show_axis(frame().axis.panned(last_.x() - event->position().x()));
      last_ = event->position();
      return;
    }
    const auto at = span_at(frame(), event->position());
    setToolTip(at ? QString::fromStdString(summary(*run_of(*at), at->span)) : QString());
  }
  void mouseReleaseEvent(QMouseEvent* event) override {
    if (!view_.model_ || event->button() != Qt::LeftButton) return;
    if ((event->position() - pressed_).manhattanLength() > kClickReach) return;
    const auto at = span_at(frame(), event->position());
    if (at) view_.go_to(run_of(*at), Place{{at->span, {}, {}}, {}});
  }
  void mouseDoubleClickEvent(QMouseEvent*) override { show({window_.step, {}, {}}); }

 private:
  static constexpr double kWheelZoom = 0.8;
  static constexpr double kClickReach = 3;

  ComparisonFrame frame() const {
    return ComparisonFrame::fitting(*view_.model_, window_, size(), text());
  }
  RunPtr run_of(const ComparedSpan& at) const {
    return at.in_b ? view_.model_->b : view_.model_->a;
  }
  void show_axis(const TimeAxis& axis) { show({window_.step, axis.begin, axis.end}); }

  CompareView& view_;
  ComparisonWindow window_;
  QPointF pressed_, last_;
};

CompareView::CompareView(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      choose_a_(add_choice(Slot::A)),
      choose_b_(add_choice(Slot::B)),
      choose_step_(new QComboBox),
      simulate_(new QPushButton("Simulate it…")),
      conclusion_(new QLabel),
      verdict_(new QLabel),
      picture_(new Picture(*this)),
      tabs_(new QTabBar),
      table_(new QTableView),
      rows_(new TableModel(this)),
      comparing_(*this) {
  setAccessibleName("Compare");
  auto* swap = new QPushButton;
  set_sign(*swap, Sign::Exchange);
  swap->setAccessibleName("Exchange A and B");
  swap->setToolTip("Exchange A and B");
  swap->setMaximumWidth(40);
  connect(swap, &QPushButton::clicked, this, [this] {
    const auto [a, b] = wanted_;
    session_.store(Slot::A, b);
    session_.store(Slot::B, a);
  });
  auto* line = new QHBoxLayout;
  line->addWidget(new QLabel("A"));
  line->addWidget(choose_a_, 1);
  line->addWidget(swap);
  line->addWidget(new QLabel("B"));
  line->addWidget(choose_b_, 1);
  line->addWidget(choose_step_);
  line->addWidget(simulate_);
  simulate_->setToolTip(
      "Choose the scenario of what was traced: it is simulated and compared with the trace");
  simulate_->setAccessibleName("Simulate what was traced");
  connect(simulate_, &QPushButton::clicked, this, [this] { choose_scenario(); });
  choose_step_->setAccessibleName("Step of both runs");
  choose_step_->view()->setAccessibleName("Steps to choose from");
  conclusion_->setAccessibleName("Conclusion");
  conclusion_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  conclusion_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  QFont bold = font();
  bold.setBold(true);
  conclusion_->setFont(bold);
  verdict_->setMinimumWidth(40);  // it is cut off, so that it does not widen the window
  verdict_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  tabs_->setAccessibleName("What is compared");
  tabs_->setDocumentMode(true);
  tabs_->setExpanding(false);
  tabs_->setDrawBase(false);
  set_up_rows(*table_, rows_, "Differences between A and B");
  table_->horizontalHeader()->setSortIndicator(-1, Qt::DescendingOrder);
  auto* tables = new QWidget;
  auto* column = new QVBoxLayout(tables);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(2);
  column->addWidget(tabs_);
  column->addWidget(table_, 1);
  column->addWidget(verdict_);
  auto* halves = new QSplitter(Qt::Horizontal);
  halves->setChildrenCollapsible(false);
  halves->addWidget(picture_);
  halves->addWidget(tables);
  halves->setStretchFactor(0, 3);
  halves->setStretchFactor(1, 2);
  halves->setSizes({600, 400});
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(8, 4, 8, 4);
  all->setSpacing(4);
  all->addLayout(line);
  all->addWidget(conclusion_);
  all->addWidget(halves, 1);

  const auto go = [this](const QModelIndex& index) { follow(index.row()); };
  connect(table_, &QTableView::clicked, this, go);
  connect(table_, &QTableView::activated, this, go);  // on Enter
  connect(tabs_, &QTabBar::currentChanged, this, [this] { show_table(); });
  connect(choose_step_, &QComboBox::activated, this, [this](int step) { show_step(step); });
  for (const auto signal : {&Session::runsChanged, &Session::runChanged, &Session::slotsChanged}) {
    connect(&session, signal, this, [this] { on_runs(); });
  }
  on_runs();
}

QComboBox* CompareView::add_choice(Slot slot) {
  auto* choice = new QComboBox;
  choice->setAccessibleName(slot == Slot::A ? "Run A" : "Run B");
  choice->view()->setAccessibleName(choice->accessibleName() + ": runs to choose from");
  choice->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  choice->setMinimumContentsLength(16);
  connect(choice, &QComboBox::activated, this, [this, slot](int index) {
    const std::vector<RunPtr> runs = choices(session_);
    const std::size_t chosen = to_size(index) - 1;  // index 0 leaves the choice open
    session_.store(slot, index > 0 && chosen < runs.size() ? runs[chosen] : nullptr);
  });
  return choice;
}

void CompareView::fill_choice(QComboBox& choice, Slot slot, const RunPtr& compared) {
  const QSignalBlocker quiet(choice);
  choice.clear();
  const auto& open = session_.runs();
  const std::vector<RunPtr> runs = choices(session_);
  const std::vector<std::string> names = distinct_names(runs);
  const auto name_of = [&](const RunPtr& run) {
    const auto found = std::find(runs.begin(), runs.end(), run);
    return QString::fromStdString(found == runs.end() ? run->title
                                                      : names[to_size(found - runs.begin())]);
  };
  choice.addItem("automatic" + (compared ? ": " + name_of(compared) : QString()));
  int current = 0;
  for (const RunPtr& run : runs) {
    const bool kept = std::find(open.begin(), open.end(), run) == open.end();
    choice.addItem(name_of(run) + (kept ? " (kept)" : ""));
    if (run == session_.slot(slot)) current = choice.count() - 1;
  }
  choice.setCurrentIndex(current);
  choice.setToolTip(choice.currentText());
}

void CompareView::on_runs() {
  const auto pair = runs_to_compare(session_.runs(), session_.run(), session_.slot(Slot::A),
                                    session_.slot(Slot::B));
  fill_choice(*choose_a_, Slot::A, pair.first);
  fill_choice(*choose_b_, Slot::B, pair.second);
  simulate_->setVisible(session_.run() && session_.run()->from_elsewhere());
  if (pair == wanted_) return;
  wanted_ = pair;
  if (!pair.first || !pair.second) {
    comparing_.cancel();
    return show_model(nullptr);
  }
  comparing_.submit([this, pair](const Cancelled&) -> Latest::Apply {
    return [this, model = make_comparison(pair.first, pair.second)] { show_model(model); };
  });
}

void CompareView::choose_scenario() {
  const QString path = QFileDialog::getOpenFileName(this, "The scenario of what was traced",
                                                    QString(), "Scenarios (*.toml)");
  if (!path.isEmpty()) simulate_beside(path.toStdString());
}

void CompareView::simulate_beside(const std::string& scenario) {
  session_.store(Slot::A, nullptr);  // the simulation, once it is there
  session_.store(Slot::B, session_.run());
  session_.open(scenario);
}

void CompareView::show_model(ComparisonPtr model) {
  model_ = std::move(model);
  const QString verdict = model_ ? QString::fromStdString(model_->verdict) : QString();
  verdict_->setText(verdict);
  verdict_->setToolTip(verdict);
  conclusion_->setText(model_ ? QString::fromStdString(model_->conclusion) : QString());
  conclusion_->setToolTip(conclusion_->text());
  conclusion_->setVisible(!conclusion_->text().isEmpty());
  {
    const QSignalBlocker quiet(choose_step_);
    choose_step_->clear();
    for (std::size_t i = 0; model_ && i < model_->steps(); ++i) {
      const int a = model_->a->steps[i].graph[0].step, b = model_->b->steps[i].graph[0].step;
      choose_step_->addItem(a == b ? QString("step %1").arg(a)
                                   : QString("step %1 and %2").arg(a).arg(b));
    }
    choose_step_->setVisible(choose_step_->count() > 1);
    const std::size_t step = picture_->window().step;
    const bool there = model_ && step < model_->steps();
    if (!there) picture_->show({});
    choose_step_->setCurrentIndex(there ? static_cast<int>(step) : 0);
  }
  picture_->refresh();
  {
    const QSignalBlocker quiet(tabs_);
    const int before = tabs_->currentIndex();
    while (tabs_->count() > 0) tabs_->removeTab(0);
    if (model_) {
      for (const DifferenceTable& table : model_->tables) {
        tabs_->addTab(QString::fromStdString(table.title));
      }
    }
    tabs_->setCurrentIndex(std::clamp(before, 0, std::max(tabs_->count() - 1, 0)));
  }
  show_table();
}

void CompareView::show_step(int step) { picture_->show({to_size(step), {}, {}}); }

void CompareView::show_table() {
  const int tab = tabs_->currentIndex();
  rows_->set(model_ && tab >= 0 ? difference_content(model_, to_size(tab)) : TableContent{});
  table_->sortByColumn(table_->horizontalHeader()->sortIndicatorSection(),
                       table_->horizontalHeader()->sortIndicatorOrder());
  table_->resizeColumnsToContents();
}

/// Shows the place of a row in the run that is shown, or in B if neither of the two is shown.
void CompareView::follow(int row) {
  const int tab = tabs_->currentIndex();
  const ComparisonPtr model = model_;  // a copy, because showing another run may replace it
  if (!model || tab < 0 || row < 0) return;
  const DifferenceRow& chosen = model->tables[tab].rows[rows_->source(row)];
  if (tabs_->tabText(tab) == "Steps") {
    choose_step_->setCurrentIndex(static_cast<int>(rows_->source(row)));
    show_step(choose_step_->currentIndex());
  }
  const auto place_in = [&](const RunPtr& run) -> const std::optional<Place>& {
    return run == model->a ? chosen.place_a : chosen.place_b;
  };
  const auto& open = session_.runs();
  for (const RunPtr& run : {session_.run(), model->b, model->a}) {
    if (!run || (run != model->a && run != model->b) || !place_in(run)) continue;
    if (std::find(open.begin(), open.end(), run) == open.end()) continue;  // only a slot keeps it
    return go_to(run, *place_in(run));
  }
}

/// Shows a place of a run, unless only a slot keeps the run.
void CompareView::go_to(const RunPtr& run, const Place& place) {
  const Place there = place;  // a copy, because showing another run may replace the model
  const auto& open = session_.runs();
  if (std::find(open.begin(), open.end(), run) == open.end()) return;
  session_.show(run);
  if (there.cursor) session_.set_cursor(*there.cursor);
  session_.point_at(there.selection);
}

}  // namespace lockstep::gui
