// TableModel: a table whose cells are functions of a row number. Nothing is computed for rows that
// are not on screen, so that a table of ten million rows opens at once.
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
  std::function<double(std::size_t row)> key = {};  // by which it is sorted; empty: by the text
  bool right = true;                                // aligned to the right, as numbers are
};

struct TableContent {
  std::vector<TableColumn> columns;
  std::size_t rows = 0;
};

class TableModel final : public QAbstractTableModel {
 public:
  /// Tables with more rows cannot be sorted, because that would block the window.
  static constexpr std::size_t kMostSorted = 300'000;

  using QAbstractTableModel::QAbstractTableModel;
  void set(TableContent content);
  /// The row of the content that is shown at `row`.
  std::size_t source(int row) const { return order_.empty() ? to_size(row) : order_[to_size(row)]; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;  // stable; -1: the order of the content

 private:
  TableContent content_;
  std::vector<std::uint32_t> order_;  // empty if the rows are in the order of the content
};

/// The rows in the order shown, as CSV with a heading.
std::string csv(const TableModel& model);

}  // namespace lockstep::gui
