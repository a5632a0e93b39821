#include "gui/views/search_view.hpp"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QScrollBar>
#include <QSplitter>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QVBoxLayout>

#include "core/format/format.hpp"
#include "gui/model/session.hpp"
#include "gui/views/qt_text.hpp"
#include "gui/views/rows_table.hpp"

namespace lockstep::gui {
namespace {

constexpr int kLayoutColumn = 1;

QString number(double count) { return qt(count_text(count)); }

}  // namespace

class SearchView::OpenInBold final : public QStyledItemDelegate {
 public:
  explicit OpenInBold(SearchView& view) : QStyledItemDelegate(&view), view_(view) {}

 protected:
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
    QStyledItemDelegate::initStyleOption(option, index);
    option->font.setBold(view_.rows_[view_.model_->source(index.row())].open);
  }

 private:
  SearchView& view_;
};

SearchView::SearchView(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      canvas_(new LayoutsCanvas),
      table_(new QTableView),
      model_(new TableModel(this)),
      search_([this] { show_search(); }) {
  setAccessibleName("Search");
  setFocusProxy(table_);
  make_table();
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(4, 4, 4, 4);
  layout->addWidget(make_controls());
  auto* halves = new QSplitter(Qt::Vertical);
  halves->addWidget(canvas_);
  halves->addWidget(table_);
  halves->setStretchFactor(0, 3);
  halves->setStretchFactor(1, 2);
  halves->setChildrenCollapsible(false);
  layout->addWidget(halves, 1);
  connect(&session, &Session::documentChanged, this, [this] { show_state(); });
  connect(&session, &Session::runsChanged, this, [this] { show_rows(); });
  connect(&session, &Session::errorsChanged, this, [this] { show_rows(); });
  show_search();
  table_->horizontalHeader()->setSectionResizeMode(kLayoutColumn, QHeaderView::Stretch);
}

QWidget* SearchView::make_controls() {
  auto* page = new QWidget;
  auto* line = new QHBoxLayout(page);
  line->setContentsMargins(0, 0, 0, 0);
  const auto button = [&](const char* label, const char* tip, auto&& action) {
    auto* b = new QPushButton(label);
    b->setToolTip(tip);
    connect(b, &QPushButton::clicked, this, action);
    line->addWidget(b);
    return b;
  };
  start_ = button("Search", "Judge every way to divide the open scenario among its cluster",
                  [this] { start(); });
  stop_ = button("Stop", "End the search; what it has found stays", [this] { search_.stop(); });
  state_ = new QLabel;
  state_->setAccessibleName("State of the search");
  state_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  state_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  state_->setWordWrap(true);
  line->addWidget(state_, 1);
  return page;
}

void SearchView::make_table() {
  table_->setItemDelegate(new OpenInBold(*this));
  set_up_rows(*table_, model_, "Layouts found");
  table_->setToolTip("Double click or Enter opens a layout as the scenario");
  table_->sortByColumn(0, Qt::AscendingOrder);
  const auto row_at = [this](const QModelIndex& at) { return model_->source(at.row()); };
  connect(table_, &QTableView::activated, this,
          [this, row_at](const QModelIndex& at) { open(rows_[row_at(at)]); });
  connect(table_, &QTableView::clicked, this,
          [this, row_at](const QModelIndex& at) { canvas_->choose(static_cast<int>(row_at(at))); });
  canvas_->on_chosen = [this](int row) {
    if (const int line = line_of(row); line >= 0) {
      table_->setCurrentIndex(model_->index(line, kLayoutColumn));
    }
  };
  canvas_->on_opened = [this](int row) { open(rows_[to_size(row)]); };
}

std::vector<Command> SearchView::commands() {
  return {{"Search the layouts of the scenario's cluster", {}, [this] { start(); }},
          {"Stop the search", {}, [this] { search_.stop(); }}};
}

std::vector<std::pair<QString, QString>> SearchView::gestures() const {
  return {{"double click, Enter", "open the layout as the scenario"}};
}

void SearchView::start() {
  if (!session_.has_document()) return;
  search_.start(session_.document(), session_.path().empty() ? "scenario.toml" : session_.path());
}

/// Opens a layout as a document beside the one whose layouts were searched. The layout is copied,
/// because rows_, of which the row is one, is made anew when the session changes.
void SearchView::open(const LayoutRow& row) {
  if (row.open) return;
  session_.open_layout(Scenario(row.layout->scenario));
}

int SearchView::line_of(int row) const {
  for (int line = 0; line < model_->rowCount(); ++line) {
    if (model_->source(line) == to_size(row)) return line;
  }
  return -1;
}

// ---------------------------------------------------------------- what it shows

void SearchView::show_search() {
  show_state();
  show_rows();
}

void SearchView::show_state() {
  const LayoutsFound& found = search_.found();
  start_->setEnabled(session_.has_document() && !search_.active());
  stop_->setEnabled(search_.active());
  QString text;
  if (!found.errors.empty()) {
    text = "⚠ " + qt(to_string(found.errors.front()));
    if (found.errors.size() > 1) text += QString(" (and %1 more)").arg(found.errors.size() - 1);
  } else if (!found.task.empty()) {
    const SpaceCounts& c = found.counts;
    const auto counted = [](std::size_t count) { return number(static_cast<double>(count)); };
    text = qt(found.task) + ": " + counted(c.layouts) + " layouts, of which " +
           counted(c.too_large) + " cannot fit, " + counted(c.too_slow) + " cannot win, " +
           counted(c.estimated) + " estimated, " + counted(c.simulated) + " simulated";
    if (c.settings > 0)
      text += ", and the best with other settings, " + counted(c.settings) + " in all";
    if (search_.active()) text = "Searching… " + text;
    if (found.stopped) text += "; stopped before the end";
  } else if (!search_.active()) {
    text = session_.has_document() ? "Every way to divide the scenario among its cluster, by "
                                     "bounds, estimates and simulation"
                                   : "Open a scenario to search its layouts: File ▸ Open.";
  }
  state_->setText(text);
  state_->setToolTip(text);
}

void SearchView::show_rows() {
  // The table is made anew, but the user stays at the same row.
  const QModelIndex current = table_->currentIndex();
  const std::string chosen =
      current.isValid() ? rows_[model_->source(current.row())].layout->name : "";
  const int scrolled = table_->verticalScrollBar()->value();
  const bool first = rows_.empty();
  rows_ = layout_rows(search_.found(), session_.simulation());
  model_->set(layout_content(rows_, search_.found().trained_on));
  canvas_->set(rows_, search_.found().lost, search_.found().capacity);
  QHeaderView& header = *table_->horizontalHeader();
  table_->sortByColumn(header.sortIndicatorSection(), header.sortIndicatorOrder());
  if (first && !rows_.empty()) table_->resizeColumnsToContents();
  table_->resizeColumnToContents(0);  // the column that marks the open scenario
  for (int row = 0; row < model_->rowCount() && current.isValid(); ++row) {
    if (rows_[model_->source(row)].layout->name != chosen) continue;
    table_->setCurrentIndex(model_->index(row, current.column()));
    break;
  }
  table_->verticalScrollBar()->setValue(scrolled);
}

}  // namespace lockstep::gui
