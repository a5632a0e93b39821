#include "gui/views/rows_table.hpp"

#include <QHeaderView>

namespace lockstep::gui {

void set_up_rows(QTableView& table, QAbstractItemModel* rows, const char* name) {
  table.setModel(rows);
  table.setAccessibleName(name);
  table.setSelectionBehavior(QAbstractItemView::SelectRows);
  table.setSelectionMode(QAbstractItemView::SingleSelection);
  table.setAlternatingRowColors(true);
  table.setShowGrid(false);
  table.setWordWrap(false);
  table.setTabKeyNavigation(false);
  table.setSortingEnabled(true);
  table.verticalHeader()->hide();
  table.verticalHeader()->setDefaultSectionSize(table.fontMetrics().height() + 5);
  table.horizontalHeader()->setHighlightSections(false);
}

}  // namespace lockstep::gui
