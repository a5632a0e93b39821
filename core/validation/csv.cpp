#include "core/validation/csv.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/index_vector.hpp"
#include "core/base/nearest.hpp"

namespace lockstep {
namespace {

/// Parses the text in one pass, and knows line and column.
class Parser {
 public:
  Parser(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  Result<std::vector<std::vector<CsvField>>> rows() {
    std::vector<std::vector<CsvField>> rows;
    while (at_ < text_.size()) {
      std::vector<CsvField> row;
      for (;;) {
        Result<CsvField> next = field();
        if (!next) return next.error();
        row.push_back(*next);
        if (at_ == text_.size() || text_[at_] != ',') break;
        advance();
      }
      if (at_ < text_.size() && text_[at_] == '\r') advance();
      if (at_ < text_.size()) advance();  // the end of the line
      const bool blank = row.size() == 1 && row.front().text.empty();
      if (!blank) rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  bool at_end_of_field() const {
    return at_ == text_.size() || text_[at_] == ',' || text_[at_] == '\n' || text_[at_] == '\r';
  }

  void advance() {
    if (text_[at_++] == '\n') {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
  }

  Error error(int line, int column, std::string message) const {
    return {ErrorKind::Parse, std::move(message), SourceSpan{file_, line, column}};
  }

  Result<CsvField> field() {
    CsvField result{"", line_, column_};
    if (at_ < text_.size() && text_[at_] == '"') {
      advance();
      for (;;) {
        if (at_ == text_.size()) {
          return error(result.line, result.column,
                       "a field begins with a quote here that is not closed; a quote inside a "
                       "quoted field is written twice");
        }
        if (text_[at_] == '"') {
          advance();
          if (at_ == text_.size() || text_[at_] != '"') break;
        }
        result.text += text_[at_];
        advance();
      }
      if (!at_end_of_field()) {
        return error(line_, column_,
                     "behind a closing quote stands a comma or the end of the line; a quote inside "
                     "a quoted field is written twice");
      }
      return result;
    }
    while (!at_end_of_field()) {
      result.text += text_[at_];
      advance();
    }
    return result;
  }

  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
};

Error at_field(const std::string& file, const CsvField& field, std::string message) {
  return {ErrorKind::Parse, std::move(message), SourceSpan{file, field.line, field.column}};
}

}  // namespace

int CsvTable::column(std::string_view name) const {
  for (std::size_t i = 0; i < heading.size(); ++i) {
    if (heading[i].text == name) return static_cast<int>(i);
  }
  return -1;
}

Result<CsvTable> parse_csv(std::string_view text, const std::string& file) {
  auto rows = Parser(text, file).rows();
  if (!rows) return rows.error();
  if (rows->empty()) {
    return Error{ErrorKind::Parse, "the file is empty; its first line names the columns",
                 SourceSpan{file, 1, 1}};
  }
  CsvTable table{file, std::move(rows->front()), {}};
  rows->erase(rows->begin());
  for (std::size_t i = 0; i < table.heading.size(); ++i) {
    if (table.column(table.heading[i].text) != static_cast<int>(i)) {
      return at_field(file, table.heading[i],
                      "column '" + table.heading[i].text + "' is named twice");
    }
  }
  for (const std::vector<CsvField>& row : *rows) {
    if (row.size() == table.heading.size()) continue;
    return at_field(file, row.back(),
                    "the row has " + std::to_string(row.size()) + " fields, the heading names " +
                        std::to_string(table.heading.size()) +
                        "; a field that holds a comma is quoted");
  }
  table.rows = std::move(*rows);
  return table;
}

const CsvField* CsvRowReader::field(std::string_view column) const {
  const int i = table_.column(column);
  return i < 0 ? nullptr : &row_[to_size(i)];
}

void CsvRowReader::note(const CsvField& field, std::string message) {
  errors_.push_back(at_field(table_.file, field, std::move(message)));
}

std::string CsvRowReader::text(std::string_view column) const {
  const CsvField* f = field(column);
  return f == nullptr ? "" : f->text;
}

std::string CsvRowReader::word(std::string_view column, const std::vector<std::string>& words) {
  const CsvField* f = field(column);
  if (f == nullptr || f->text.empty()) return "";
  if (std::find(words.begin(), words.end(), f->text) != words.end()) return f->text;
  std::string valid;
  for (const std::string& word : words) valid += (valid.empty() ? "" : ", ") + word;
  note(*f, "'" + std::string(column) + "' is empty or one of " + valid + ", got '" + f->text + "'");
  return "";
}

std::string CsvRowReader::needed(std::string_view column) {
  const CsvField* f = field(column);
  if (f == nullptr) return "";  // require_columns() has noted it
  if (f->text.empty()) note(*f, "'" + std::string(column) + "' is empty, and every row needs it");
  return f->text;
}

std::optional<double> CsvRowReader::number(std::string_view column) {
  const CsvField* f = field(column);
  if (f == nullptr || f->text.empty()) return std::nullopt;
  double value = 0;
  const char* end = f->text.data() + f->text.size();
  const auto [stop, fault] = std::from_chars(f->text.data(), end, value);
  if (fault == std::errc() && stop == end && value > 0 && value < 1e18) return value;
  note(*f, "'" + std::string(column) + "' is a number above 0 or empty, got '" + f->text + "'");
  return std::nullopt;
}

std::optional<long> CsvRowReader::count(std::string_view column) {
  const std::optional<double> value = number(column);
  if (!value) return std::nullopt;
  if (*value == std::floor(*value)) return static_cast<long>(*value);
  const CsvField* f = field(column);
  note(*f, "'" + std::string(column) + "' is a whole number, got '" + f->text + "'");
  return std::nullopt;
}

void require_columns(const CsvTable& table, const std::vector<std::string>& needed,
                     std::vector<Error>& errors) {
  std::vector<std::string> names;
  for (const CsvField& field : table.heading) names.push_back(field.text);
  for (const std::string& name : needed) {
    if (table.column(name) >= 0) continue;
    const std::string near = nearest(name, names);
    errors.push_back(at_field(table.file, table.heading.front(),
                              "there is no column '" + name + "'" +
                                  (near.empty() ? "" : "; is '" + near + "' meant?") +
                                  " (docs/validation.md lists the columns)"));
  }
}

}  // namespace lockstep
