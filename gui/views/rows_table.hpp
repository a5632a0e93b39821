// How every table of rows looks and is used: a row is chosen as a whole, columns sort.
#pragma once

#include <QTableView>

namespace lockstep::gui {

/// `name`: for those who do not see it. How it is sorted at first is up to the view.
void set_up_rows(QTableView& table, QAbstractItemModel* rows, const char* name);

}  // namespace lockstep::gui
