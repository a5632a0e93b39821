#include "gui/views/summary_view.hpp"

#include <QGridLayout>
#include <QHeaderView>
#include <QLabel>
#include <QMouseEvent>
#include <QScrollArea>
#include <QTableView>
#include <QVBoxLayout>

#include "core/analysis/trace_report.hpp"
#include "core/format/format.hpp"
#include "gui/draw/breakdown_drawing.hpp"
#include "gui/model/session.hpp"
#include "gui/views/canvas.hpp"
#include "gui/views/rows_table.hpp"

namespace lockstep::gui {
namespace {

constexpr int kColumns = 3;  // of the grid of cards
constexpr int kNumCards = 9;

/// The words of a bar for screen readers and for tooltips, which say more than the bar shows.
std::string words_of(const Report& report, const PartsRow& row) {
  std::string words = label_of(report, row.ranks) + ":";
  const double whole = sum(row.parts).v;
  for (std::size_t i = 0; i < row.parts.size(); ++i) {
    if (!(row.parts[i].v > 0)) continue;
    words += "\n" + std::string(kTimePartNames[i]) + " " + time_text(row.parts[i]) + ", " +
             percent_text(row.parts[i].v / whole);
  }
  return words;
}

}  // namespace

class SummaryView::Picture final : public Canvas {
 public:
  Picture(SummaryView& view, Session& session) : view_(view), session_(session) {
    setAccessibleName("Parts of each rank's step, and bubbles by cause");
    setFocusPolicy(Qt::NoFocus);  // keyboards use the table below, which says the same
    setFixedHeight(10);
  }
  void refresh() {
    setFixedHeight(told() ? static_cast<int>(frame().height) : 10);
    QString words;
    if (told()) {
      for (const PartsRow& row : view_.model_->rows) {
        words += QString::fromStdString(words_of(view_.model_->report, row)) + "\n";
      }
    }
    setAccessibleDescription(words);
    invalidate();
  }

 protected:
  DisplayList draw() const override {
    return told() ? draw_breakdown(*view_.model_, width(), text()) : DisplayList{};
  }
  void mouseMoveEvent(QMouseEvent* event) override {
    const auto row = told() ? frame().row_at(event->position()) : std::nullopt;
    setToolTip(
        row ? QString::fromStdString(words_of(view_.model_->report, view_.model_->rows[*row]))
            : QString());
  }
  void mousePressEvent(QMouseEvent* event) override {
    if (!told() || view_.model_->run != session_.run()) return;
    const auto row = frame().row_at(event->position());
    if (row) session_.point_at({std::nullopt, std::nullopt, view_.model_->rows[*row].ranks});
  }

 private:
  /// Whether there is anything to draw: of a trace in which no device works there is not.
  bool told() const { return view_.model_ && tells_device_work(view_.model_->report); }
  BreakdownFrame frame() const { return BreakdownFrame::fitting(*view_.model_, width(), text()); }

  SummaryView& view_;
  Session& session_;
};

SummaryView::SummaryView(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      title_(new QLabel),
      picture_(new Picture(*this, session)),
      straggler_(new QLabel),
      staleness_(new QLabel),
      table_(new QTableView),
      ranks_(new TableModel(this)),
      reading_(*this) {
  setAccessibleName("Summary");
  title_->setTextFormat(Qt::RichText);
  title_->setWordWrap(true);
  straggler_->setWordWrap(true);
  staleness_->setWordWrap(true);
  auto* grid = new QGridLayout;
  grid->setSpacing(4);
  for (int i = 0; i < kNumCards; ++i) {
    auto* card = new QLabel;
    card->setFrameShape(QFrame::StyledPanel);
    card->setBackgroundRole(QPalette::Base);
    card->setAutoFillBackground(true);
    card->setMargin(4);
    card->setTextFormat(Qt::RichText);
    card->setWordWrap(true);
    card->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    card->setTextInteractionFlags(Qt::TextSelectableByMouse);
    grid->addWidget(card, i / kColumns, i % kColumns);
    cards_.push_back(card);
  }
  for (int c = 0; c < kColumns; ++c) grid->setColumnStretch(c, 1);

  set_up_rows(*table_, ranks_, "Ranks: who comes last, who waits, and the parts of the step");
  table_->sortByColumn(2, Qt::DescendingOrder);
  table_->setMinimumHeight(8 * (table_->fontMetrics().height() + 5));
  const auto go = [this](const QModelIndex& index) {
    if (model_ && model_->run == session_.run()) {
      session_.point_at(place_of(*model_, static_cast<Rank>(ranks_->source(index.row()))));
    }
  };
  connect(table_, &QTableView::clicked, this, go);
  connect(table_, &QTableView::activated, this, go);  // on Enter

  auto* inside = new QWidget;
  auto* column = new QVBoxLayout(inside);
  column->setContentsMargins(6, 6, 6, 6);
  column->addWidget(title_);
  column->addLayout(grid);
  column->addWidget(picture_);
  column->addWidget(staleness_);
  column->addWidget(straggler_);
  column->addWidget(table_, 1);
  auto* scroll = new QScrollArea;
  scroll->setWidgetResizable(true);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setAccessibleName("Summary");
  scroll->setWidget(inside);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 0, 0, 0);
  all->addWidget(scroll);

  connect(&session, &Session::runChanged, this, [this] { on_run(); });
  on_run();
}

void SummaryView::on_run() {
  const RunPtr run = session_.run();
  if (!run) {
    reading_.cancel();
    return show_model(nullptr);
  }
  reading_.submit([this, run](const Cancelled&) -> Latest::Apply {
    return [this, model = make_summary(run)] { show_model(model); };
  });
}

void SummaryView::show_model(SummaryPtr model) {
  model_ = std::move(model);
  title_->setText(
      model_ ? "<b>" + QString::fromStdString(model_->run->title).toHtmlEscaped() + "</b>"
             : QString("The figures by which a run is judged come here: open a scenario, a "
                       "run or a trace."));
  for (std::size_t i = 0; i < cards_.size(); ++i) {
    QLabel& label = *cards_[i];
    const bool shown = model_ && i < model_->cards.size();
    label.setVisible(shown);
    if (!shown) continue;
    const Card& card = model_->cards[i];
    const QString title = QString::fromStdString(card.title);
    const QString value = QString::fromStdString(card.value);
    const QString note = QString::fromStdString(card.note);
    label.setText(QString("<small>%1</small><br><b><big>%2</big></b><br><small>%3</small>")
                      .arg(title.toHtmlEscaped(), value.toHtmlEscaped(),
                           card.known ? note.toHtmlEscaped() : QString()));
    label.setToolTip(card.known ? QString() : "Not known: " + note);
    label.setAccessibleName(title + ": " + (card.known ? value + ", " : "not known, ") + note);
  }
  picture_->refresh();
  table_->setVisible(model_ != nullptr && !model_->run->trace.spans.empty());
  straggler_->setText(model_ ? QString::fromStdString(straggler_text(*model_)) : QString());
  staleness_->setText(model_ ? QString::fromStdString(staleness_text(*model_)) : QString());
  staleness_->setVisible(!staleness_->text().isEmpty());
  const bool first = ranks_->rowCount() == 0;
  ranks_->set(model_ ? rank_content(model_) : TableContent{});
  table_->sortByColumn(table_->horizontalHeader()->sortIndicatorSection(),
                       table_->horizontalHeader()->sortIndicatorOrder());
  if (first && ranks_->rowCount() > 0) table_->resizeColumnsToContents();
}

}  // namespace lockstep::gui
