#include "gui/model/run/table_model.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/index_vector.hpp"

namespace lockstep::gui {

void TableModel::set(TableContent content) {
  beginResetModel();
  content_ = std::move(content);
  order_.clear();
  endResetModel();
}

int TableModel::rowCount(const QModelIndex& parent) const {
  constexpr std::size_t kMost = to_size(std::numeric_limits<int>::max());
  return parent.isValid() ? 0 : static_cast<int>(std::min(content_.rows, kMost));
}

int TableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(content_.columns.size());
}

QVariant TableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const TableColumn& column = content_.columns[index.column()];
  if (role == Qt::DisplayRole || role == Qt::AccessibleTextRole) {
    return QString::fromStdString(column.text(source(index.row())));
  }
  if (role == Qt::TextAlignmentRole) {
    return int(Qt::AlignVCenter | (column.right ? Qt::AlignRight : Qt::AlignLeft));
  }
  return {};
}

QVariant TableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return role == Qt::DisplayRole ? section + 1 : QVariant();
  const TableColumn& column = content_.columns[section];
  if (role == Qt::DisplayRole) return QString::fromStdString(column.title);
  if (role == Qt::TextAlignmentRole) {
    return int(Qt::AlignVCenter | (column.right ? Qt::AlignRight : Qt::AlignLeft));
  }
  return {};
}

void TableModel::sort(int column, Qt::SortOrder order) {
  if (content_.rows > kMostSorted || column >= columnCount()) return;
  emit layoutAboutToBeChanged();
  const std::vector<std::uint32_t> before = order_;
  order_.clear();
  if (column >= 0) {
    const TableColumn& by = content_.columns[column];
    order_.resize(content_.rows);
    std::iota(order_.begin(), order_.end(), 0U);
    const auto sort_by = [&](const auto& keys) {
      std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return order == Qt::AscendingOrder ? keys[a] < keys[b] : keys[b] < keys[a];
      });
    };
    if (by.key) {
      std::vector<double> keys;
      for (std::size_t row = 0; row < content_.rows; ++row) keys.push_back(by.key(row));
      sort_by(keys);
    } else {
      std::vector<std::string> keys;
      for (std::size_t row = 0; row < content_.rows; ++row) keys.push_back(by.text(row));
      sort_by(keys);
    }
  }
  // Selected rows move with their content.
  std::vector<int> place(content_.rows);
  for (std::size_t row = 0; row < content_.rows; ++row) {
    place[source(static_cast<int>(row))] = static_cast<int>(row);
  }
  QModelIndexList from = persistentIndexList(), to;
  for (const QModelIndex& old : from) {
    const std::size_t row = to_size(old.row());
    to << index(place[before.empty() ? row : before[row]], old.column());
  }
  changePersistentIndexList(from, to);
  emit layoutChanged();
}

std::string csv(const TableModel& model) {
  std::string text;
  const auto cell = [&](const QString& value, bool last) {
    std::string words = value.toStdString();
    if (words.find_first_of(",\"\n") != std::string::npos) {
      std::string quoted = "\"";
      for (const char c : words) quoted += c == '"' ? "\"\"" : std::string(1, c);
      words = quoted + "\"";
    }
    text += words + (last ? "\n" : ",");
  };
  const int columns = model.columnCount();
  for (int c = 0; c < columns; ++c) {
    cell(model.headerData(c, Qt::Horizontal, Qt::DisplayRole).toString(), c + 1 == columns);
  }
  for (int r = 0; r < model.rowCount(); ++r) {
    for (int c = 0; c < columns; ++c) {
      cell(model.data(model.index(r, c), Qt::DisplayRole).toString(), c + 1 == columns);
    }
  }
  return text;
}

}  // namespace lockstep::gui
