// CSV as published measurements are kept: a heading, then rows; fields may be quoted (RFC 4180).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

struct CsvField {
  std::string text;
  int line = 1, column = 1;  // 1-based, of its first character
};

struct CsvTable {
  std::string file;
  std::vector<CsvField> heading;
  std::vector<std::vector<CsvField>> rows;  // each as long as the heading
  /// -1: no such column.
  int column(std::string_view name) const;
};

/// Errors: Parse, with file:line:column: an empty file, a quote that is not closed, text behind a
/// closed quote, a column that is named twice, a row that is longer or shorter than the heading.
Result<CsvTable> parse_csv(std::string_view text, const std::string& file);

/// Reads the fields of one row by column name, and notes every field that is not what it should be.
class CsvRowReader {
 public:
  CsvRowReader(const CsvTable& table, const std::vector<CsvField>& row, std::vector<Error>& errors)
      : table_(table), row_(row), errors_(errors) {}

  /// Empty where the table has no such column.
  std::string text(std::string_view column) const;
  /// None for an empty field. Notes what is not a number above 0 and below 10^18.
  std::optional<double> number(std::string_view column);
  std::optional<long> count(std::string_view column);  // likewise, and whole
  /// Notes a field that is needed and empty.
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
