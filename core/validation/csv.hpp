// CSV: the format of published measurements: a heading, then rows; fields may be quoted (RFC 4180).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

struct CsvField {
  std::string text;
  int line = 1, column = 1;  // those of its first character, 1-based
};

struct CsvTable {
  std::string file;
  std::vector<CsvField> heading;
  std::vector<std::vector<CsvField>> rows;  // each as long as the heading
  /// The index of a column; -1 if there is no such column.
  int column(std::string_view name) const;
};

/// Parses a file. Errors: Parse, with file:line:column, for an empty file, a quote that is not
/// closed, text behind a closed quote, a column that is named twice, or a row that is longer or
/// shorter than the heading.
Result<CsvTable> parse_csv(std::string_view text, const std::string& file);

/// Reads the fields of one row by the names of columns, and notes every field that is not valid.
class CsvRowReader {
 public:
  CsvRowReader(const CsvTable& table, const std::vector<CsvField>& row, std::vector<Error>& errors)
      : table_(table), row_(row), errors_(errors) {}

  /// The text of a field; empty if the table has no such column.
  std::string text(std::string_view column) const;
  /// The number in a field; nullopt for an empty one. Notes what is not a number above 0 and below
  /// 10^18.
  std::optional<double> number(std::string_view column);
  std::optional<long> count(std::string_view column);  // the same for a whole number
  /// The text of a field that is empty or one of `words`; notes another one.
  std::string word(std::string_view column, const std::vector<std::string>& words);
  /// The text of a field that must not be empty; notes one that is.
  std::string needed(std::string_view column);

 private:
  const CsvField* field(std::string_view column) const;
  void note(const CsvField& field, std::string message);

  const CsvTable& table_;
  const std::vector<CsvField>& row_;
  std::vector<Error>& errors_;
};

/// Notes every needed column that the heading lacks, with the nearest name that it has.
void require_columns(const CsvTable& table, const std::vector<std::string>& needed,
                     std::vector<Error>& errors);

}  // namespace lockstep
