#include "gui/views/details_view.hpp"

#include <QHeaderView>

#include "core/format/format.hpp"
#include "gui/model/run/describe.hpp"
#include "gui/model/run/links.hpp"
#include "gui/views/qt_text.hpp"

namespace lockstep::gui {
namespace {

constexpr int kSpanRole = Qt::UserRole;

}  // namespace

DetailsView::DetailsView(Session& session, QWidget* parent)
    : QTreeWidget(parent), session_(session), reading_(*this) {
  setAccessibleName("Details of the selection");
  setColumnCount(2);
  setHeaderHidden(true);
  setRootIsDecorated(false);
  setAlternatingRowColors(true);
  setIndentation(12);
  connect(this, &QTreeWidget::itemActivated, this, [this](QTreeWidgetItem* item) {
    const QVariant span = item->data(0, kSpanRole);
    if (span.isValid()) {
      session_.point_at({static_cast<SpanId>(span.toULongLong()), std::nullopt, {}});
    }
  });
  connect(this, &QTreeWidget::itemClicked, this,
          [this](QTreeWidgetItem* item) { emit itemActivated(item, 0); });
  connect(&session, &Session::selectionChanged, this, [this] { show_selection(); });
  connect(&session, &Session::runChanged, this, [this] { show_selection(); });
  show_selection();
}

/// Shows what is known at once, then the arguments as soon as they are read from the trace's file.
void DetailsView::show_selection() {
  arguments_.clear();
  fill();
  const RunPtr run = session_.run();
  const auto span = session_.selection().span;
  if (!run || !span || run->sources.empty()) return reading_.cancel();
  reading_.submit([this, run, span = *span](const Cancelled&) -> Latest::Apply {
    Result<SpanArguments> read = read_arguments(run->sources, run->trace, span);
    SpanArguments arguments = read ? std::move(*read) : SpanArguments{{"", read.error().message}};
    return [this, arguments = std::move(arguments)] {
      arguments_ = arguments;
      fill();
    };
  });
}

void DetailsView::fill() {
  clear();
  const RunPtr run = session_.run();
  const Selection& selection = session_.selection();
  if (!run || !selection.span) {
    const QString hint =
        selection.range
            ? "Selected: " +
                  qt(time_text(to_seconds(selection.range->end - selection.range->begin)))
            : QString("Click a span: what it is, what it waits for.");
    auto* item = new QTreeWidgetItem(this, {hint});
    item->setFirstColumnSpanned(true);
    return;
  }
  int group_size = 0;
  for (const auto& [name, value] : arguments_) {
    if (name == "Group size") group_size = qt(value).toInt();
  }
  for (const auto& [name, value] : facts_of(*run, *selection.span, group_size)) {
    new QTreeWidgetItem(this, {qt(name), qt(value)});
  }
  const auto section = [&](const char* title, bool backward, auto wanted) {
    QTreeWidgetItem* parent = nullptr;
    for (const Link& link : links_of(*run, *selection.span)) {
      if (!wanted(link)) continue;
      if (!parent) {
        parent = new QTreeWidgetItem(this, {title});
        parent->setFirstColumnSpanned(true);
        QFont bold = font();
        bold.setBold(true);
        parent->setFont(0, bold);
      }
      const SpanId other = backward ? link.from : link.to;
      const Rank rank = run->trace.spans[other].rank;
      auto* item =
          new QTreeWidgetItem(parent, {"rank " + QString::number(rank), qt(summary(*run, other))});
      item->setData(0, kSpanRole, QVariant::fromValue<qulonglong>(other));
    }
    if (parent) parent->setExpanded(true);
  };
  const SpanId span = *selection.span;
  using Kind = Link::Kind;
  section("Waited for", true,
          [&](const Link& l) { return l.kind != Kind::Collective && l.to == span; });
  section("Waited for by", false,
          [&](const Link& l) { return l.kind != Kind::Collective && l.from == span; });
  section("Together with", true, [&](const Link& l) { return l.kind == Kind::Collective; });
  add_section("Arguments in the file", arguments_);
  resizeColumnToContents(0);
}

void DetailsView::add_section(const char* title, const SpanArguments& rows) {
  if (rows.empty()) return;
  auto* parent = new QTreeWidgetItem(this, {title});
  parent->setFirstColumnSpanned(true);
  QFont bold = font();
  bold.setBold(true);
  parent->setFont(0, bold);
  for (const auto& [name, value] : rows) {
    auto* item = new QTreeWidgetItem(parent, {qt(name), qt(value)});
    item->setToolTip(1, qt(value));
  }
  parent->setExpanded(true);
}

}  // namespace lockstep::gui
