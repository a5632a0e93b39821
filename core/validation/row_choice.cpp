#include "core/validation/row_choice.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "core/base/nearest.hpp"
#include "core/base/read_file.hpp"

namespace lockstep {
namespace {

bool is_chosen(const std::string& source, const RowChoice& choice) {
  return choice.source.empty() || fnmatch(choice.source.c_str(), source.c_str(), 0) == 0;
}

}  // namespace

Result<CsvTable> read_csv(const std::string& file) {
  const Result<std::string> text = read_file(file);
  if (!text) return text.error();
  return parse_csv(*text, file);
}

bool has_collectives(const CsvTable& table) { return table.column("collective") >= 0; }

CollectiveRows choose_rows(CollectiveRows read, const RowChoice& choice) {
  if (!read.errors.empty()) return read;
  if (!choice.row.empty()) {
    return {{}, {invalid("collectives have no ids: --row is of training runs")}};
  }
  std::erase_if(read.rows,
                [&](const CollectiveRow& row) { return !is_chosen(row.source, choice); });
  if (read.rows.empty()) {
    return {{}, {invalid("no row is of a source '" + choice.source + "'")}};
  }
  return read;
}

TrainingRows choose_rows(TrainingRows read, const RowChoice& choice) {
  if (!read.errors.empty()) return read;
  std::vector<std::string> groups, ids;
  for (const TrainingRow& row : read.rows) {
    ids.push_back(row.id);
    groups.push_back(row.group());
  }
  std::erase_if(read.rows, [&](const TrainingRow& row) {
    return !is_chosen(row.group(), choice) || (!choice.row.empty() && row.id != choice.row);
  });
  if (read.rows.empty()) {
    const std::string& name = choice.row.empty() ? choice.source : choice.row;
    const std::string near = nearest(name, choice.row.empty() ? groups : ids);
    return {{},
            {invalid("no row of " + choice.file + " is '" + name + "'" +
                     (near.empty() ? "" : "; did you mean '" + near + "'?"))}};
  }
  return read;
}

}  // namespace lockstep
