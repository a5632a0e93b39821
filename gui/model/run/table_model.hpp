// TableModel: a table whose cells are functions of a row number. Nothing is computed for rows that
// are not on screen, so ten million rows open at once.
#pragma once

#include <QAbstractTableModel>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/index_vector.hpp"

namespace lockstep::gui {

struct TableColumn {
  std::string title;
  std::function<std::string(std::size_t row)> text;
  std::function<double(std::size_t row)> key = {};  // what it is sorted by; none: by the text
  bool right = true;                                // numbers stand to the right
};

struct TableContent {
  std::vector<TableColumn> columns;
  std::size_t rows = 0;
};

class TableModel final : public QAbstractTableModel {
 public:
  /// Tables with more rows keep their own order: sorting them would hold the window up.
  static constexpr std::size_t kMostSorted = 300'000;

  using QAbstractTableModel::QAbstractTableModel;
  void set(TableContent content);
  /// The content's row that stands at `row`.
  std::size_t source(int row) const { return order_.empty() ? to_size(row) : order_[to_size(row)]; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;  // stable; column -1: the own order

 private:
  TableContent content_;
  std::vector<std::uint32_t> order_;  // empty: as the content is
};

/// The rows shown, as CSV with a heading.
std::string csv(const TableModel& model);

}  // namespace lockstep::gui
