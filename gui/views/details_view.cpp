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
    : QTreeWidget(parent), session_(session) {
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

void DetailsView::show_selection() {
  clear();
  const RunPtr run = session_.run();
  const Selection& selection = session_.selection();
  if (!run || !selection.span) {
    const QString hint =
        selection.range
            ? "Selected: " +
                  qt(time_text(to_seconds(selection.range->end - selection.range->begin)))
            : QString("Click a span to see what it is and what it waited for.");
    auto* item = new QTreeWidgetItem(this, {hint});
    item->setFirstColumnSpanned(true);
    return;
  }
  for (const auto& [name, value] : facts_of(*run, *selection.span)) {
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
  resizeColumnToContents(0);
}

}  // namespace lockstep::gui
