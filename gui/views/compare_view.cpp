#include "gui/views/compare_view.hpp"

#include <QAbstractItemView>
#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QSignalBlocker>
#include <QTabBar>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"
#include "gui/draw/comparison_drawing.hpp"
#include "gui/model/run/open_runs.hpp"
#include "gui/model/session.hpp"
#include "gui/views/canvas.hpp"
#include "gui/views/rows_table.hpp"

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
    setAccessibleName("What the two steps consist of");
    setFocusPolicy(Qt::NoFocus);
    setFixedHeight(static_cast<int>(ComparisonFrame::fitting(400, text()).height) + 1);
  }
  void refresh() {
    std::string words;
    if (const ComparisonPtr& model = view_.model_) {
      words = "A: " + time_text(model->step_a) + ", B: " + time_text(model->step_b);
      for (std::size_t i = 0; i < kTimePartNames.size(); ++i) {
        words += "\n" + std::string(kTimePartNames[i]) + ": " + time_text(model->parts_a[i]) +
                 ", " + time_text(model->parts_b[i]);
      }
    }
    setAccessibleDescription(QString::fromStdString(words));
    setToolTip(QString::fromStdString(words));
    invalidate();
  }

 protected:
  DisplayList draw() const override {
    if (view_.model_) return draw_comparison(*view_.model_, width(), text());
    DisplayList list;
    list.text(QRectF(0, 0, width(), height()),
              "Open a second run, or keep one as A or B, to compare two", Ink::Faint,
              Align::Center);
    return list;
  }

 private:
  CompareView& view_;
};

CompareView::CompareView(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      choose_a_(add_choice(Slot::A)),
      choose_b_(add_choice(Slot::B)),
      verdict_(new QLabel),
      picture_(new Picture(*this)),
      tabs_(new QTabBar),
      table_(new QTableView),
      rows_(new TableModel(this)),
      comparing_(*this) {
  setAccessibleName("Compare");
  auto* swap = new QPushButton("⇄");
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
  line->addWidget(verdict_, 2);
  verdict_->setMinimumWidth(40);  // it is cut off, so that it does not widen the window
  tabs_->setAccessibleName("What is compared");
  tabs_->setDocumentMode(true);
  tabs_->setExpanding(false);
  tabs_->setDrawBase(false);
  set_up_rows(*table_, rows_, "Differences between A and B");
  table_->horizontalHeader()->setSortIndicator(-1, Qt::DescendingOrder);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(4, 4, 4, 4);
  all->setSpacing(2);
  all->addLayout(line);
  all->addWidget(picture_);
  all->addWidget(tabs_);
  all->addWidget(table_, 1);

  const auto go = [this](const QModelIndex& index) { follow(index.row()); };
  connect(table_, &QTableView::clicked, this, go);
  connect(table_, &QTableView::activated, this, go);  // on Enter
  connect(tabs_, &QTabBar::currentChanged, this, [this] { show_table(); });
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
  choice.addItem("automatic" +
                 (compared ? ": " + QString::fromStdString(compared->title) : QString()));
  const auto& open = session_.runs();
  int current = 0;
  for (const RunPtr& run : choices(session_)) {
    const bool kept = std::find(open.begin(), open.end(), run) == open.end();
    choice.addItem(QString::fromStdString(run->title) + (kept ? " (kept)" : ""));
    if (run == session_.slot(slot)) current = choice.count() - 1;
  }
  choice.setCurrentIndex(current);
}

void CompareView::on_runs() {
  const auto pair = runs_to_compare(session_.runs(), session_.run(), session_.slot(Slot::A),
                                    session_.slot(Slot::B));
  fill_choice(*choose_a_, Slot::A, pair.first);
  fill_choice(*choose_b_, Slot::B, pair.second);
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

void CompareView::show_model(ComparisonPtr model) {
  model_ = std::move(model);
  const QString verdict = model_ ? QString::fromStdString(model_->verdict) : QString();
  verdict_->setText(verdict);
  verdict_->setToolTip(verdict);
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
  const auto place_in = [&](const RunPtr& run) -> const std::optional<Place>& {
    return run == model->a ? chosen.place_a : chosen.place_b;
  };
  const auto& open = session_.runs();
  for (const RunPtr& run : {session_.run(), model->b, model->a}) {
    if (!run || (run != model->a && run != model->b) || !place_in(run)) continue;
    if (std::find(open.begin(), open.end(), run) == open.end()) continue;  // only a slot keeps it
    session_.show(run);
    const Place place = *place_in(run);
    if (place.cursor) session_.set_cursor(*place.cursor);
    return session_.point_at(place.selection);
  }
}

}  // namespace lockstep::gui
