#include "gui/views/tables_view.hpp"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QTabWidget>
#include <QTableView>
#include <QVBoxLayout>

#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"
#include "core/run_folder/run_folder.hpp"
#include "gui/model/session.hpp"
#include "gui/views/rows_table.hpp"
#include "gui/views/unsaved.hpp"

namespace lockstep::gui {

TablesView::TablesView(Session& session, QWidget* parent)
    : QWidget(parent), session_(session), tabs_(new QTabWidget), scope_(new QLabel) {
  setAccessibleName("Tables of spans, bubbles and statistics");
  tabs_->setDocumentMode(true);
  tabs_->setAccessibleName("Tables");
  setFocusProxy(tabs_);
  add_page("Spans", "Table of spans", &span_table);
  add_page("Bubbles", "Table of bubbles", &bubble_table);
  add_page("Statistics", "Statistics of the selected area", &statistics_table);
  add_page("By name", "Statistics of kernels and operations by name", &name_table);
  add_page("Critical path", "Table of the critical path",
           [](const RunPtr& run, const Selection&) { return path_table(run); });
  add_page("Marks", "Table of marks", [&session](const RunPtr& run, const Selection&) {
    return mark_table(run, session.marks());
  });

  auto* save = new QPushButton("Save as CSV…");
  save->setAccessibleName("Save this table as CSV");
  connect(save, &QPushButton::clicked, this, [this] { export_csv(); });
  auto* bottom = new QHBoxLayout;
  bottom->setContentsMargins(6, 2, 6, 2);
  bottom->addWidget(scope_, 1);
  bottom->addWidget(save);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 0, 0, 0);
  all->addWidget(tabs_, 1);
  all->addLayout(bottom);

  connect(tabs_, &QTabWidget::currentChanged, this, [this] { show_page(); });
  connect(&session, &Session::runChanged, this, [this] { outdate(); });
  connect(&session, &Session::selectionChanged, this, [this] {
    if (!following_) outdate();
  });
  connect(&session, &Session::marksChanged, this, [this] { outdate(); });
  outdate();
}

void TablesView::add_page(const char* title, const char* name, decltype(Page::make) make) {
  Page page;
  page.make = std::move(make);
  page.model = new TableModel(this);
  page.view = new QTableView;
  set_up_rows(*page.view, page.model, name);
  page.view->horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
  const std::size_t number = pages_.size();
  const auto go = [this, number](const QModelIndex& index) { follow(pages_[number], index.row()); };
  connect(page.view, &QTableView::clicked, this, go);
  connect(page.view, &QTableView::activated, this, go);  // on Enter
  tabs_->addTab(page.view, title);
  pages_.push_back(std::move(page));
}

void TablesView::outdate() {
  area_ = session_.selection();
  area_.span.reset();
  for (Page& page : pages_) page.stale = true;
  show_page();
}

void TablesView::show_page() {
  const RunPtr run = session_.run();
  const int at = tabs_->currentIndex();
  if (at < 0 || to_size(at) >= pages_.size()) return;
  Page& page = pages_[at];
  if (page.stale) {
    TimelineTable table = run ? page.make(run, area_) : TimelineTable{};
    const bool first = page.model->rowCount() == 0;
    page.model->set(std::move(table.content));
    page.target = std::move(table.target);
    page.view->sortByColumn(page.view->horizontalHeader()->sortIndicatorSection(),
                            page.view->horizontalHeader()->sortIndicatorOrder());
    if (first && page.model->rowCount() > 0) page.view->resizeColumnsToContents();
    page.stale = false;
  }
  QString scope = QString("%L1 rows").arg(page.model->rowCount());
  if (area_.range) {
    scope += " of the selected " +
             QString::fromStdString(time_text(to_seconds(area_.range->end - area_.range->begin)));
  }
  if (!area_.ranks.empty()) {
    scope += area_.ranks.size() == 1 ? QString(" on 1 rank")
                                     : QString(" on %1 ranks").arg(area_.ranks.size());
  }
  if (page.model->rowCount() > static_cast<int>(TableModel::kMostSorted)) {
    scope += "; select an area of the timeline to sort them";
  }
  if (!run) scope = "What the timeline draws comes here in rows, to sort and to save.";
  scope_->setText(scope);
}

void TablesView::follow(Page& page, int row) {
  if (!page.target || row < 0) return;
  following_ = true;
  session_.point_at(page.target(page.model->source(row)));
  following_ = false;
}

void TablesView::export_csv() {
  const QString path = ask_where_to_write(this, "Save as CSV", "table.csv", "Tables (*.csv)");
  if (path.isEmpty()) return;
  const Page& page = pages_[tabs_->currentIndex()];
  const auto written = write_file(path.toStdString(), csv(*page.model));
  if (!written) emit session_.failed(QString::fromStdString(to_string(written.error())));
}

}  // namespace lockstep::gui
