// Rows table: how all tables of rows look and are used: rows are selected as a whole, and columns
// sort.
#pragma once

#include <QTableView>

namespace lockstep::gui {

/// Sets up a table. `name` is for screen readers. The view decides how the table is sorted at
/// first.
void set_up_rows(QTableView& table, QAbstractItemModel* rows, const char* name);

}  // namespace lockstep::gui
