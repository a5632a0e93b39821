#include "core/validation/csv.hpp"

#include "core/validation/training_row.hpp"
#include "tests/core/validation/rows.hpp"

using namespace lockstep;

namespace {

std::string fault(const std::string& text) {
  const Result<CsvTable> table = parse_csv(text, "runs.csv");
  return table.ok() ? "" : to_string(table.error());
}

}  // namespace

TEST_CASE("quoted fields keep commas, quotes and line ends, and know their place", "[validation]") {
  const Result<CsvTable> table =
      parse_csv("a,b\r\n\"1,5\",\"say \"\"x\"\"\nthere\"\nlast,\n", "runs.csv");
  REQUIRE(table.ok());
  REQUIRE(table->rows.size() == 2);
  CHECK(table->rows[0][0].text == "1,5");
  CHECK(table->rows[0][1].text == "say \"x\"\nthere");
  CHECK(table->rows[0][1].line == 2);
  CHECK(table->rows[0][1].column == 7);
  CHECK(table->rows[1][0].text == "last");
  CHECK(table->rows[1][0].line == 4);  // the quoted field held a line end
  CHECK(table->rows[1][1].text.empty());
  CHECK(table->column("b") == 1);
  CHECK(table->column("c") == -1);
}

TEST_CASE("a CSV that is not one is refused where it goes wrong", "[validation]") {
  CHECK_THAT(fault(""), ContainsSubstring("runs.csv:1:1: the file is empty"));
  CHECK_THAT(fault("a,b\n1\n"), ContainsSubstring("runs.csv:2:1: the row has 1 fields"));
  CHECK_THAT(fault("a,b\n1,2,3\n"), ContainsSubstring("runs.csv:2:5: the row has 3 fields"));
  CHECK_THAT(fault("a,b,a\n"), ContainsSubstring("runs.csv:1:5: column 'a' is named twice"));
  CHECK_THAT(fault("a,b\n1,\"2\n"), ContainsSubstring("runs.csv:2:3: a field begins with a quote"));
  CHECK_THAT(fault("a,b\n\"1\"x,2\n"), ContainsSubstring("runs.csv:2:4: behind a closing quote"));
}

TEST_CASE("cells that are no numbers are all reported with their place", "[validation]") {
  const Result<CsvTable> table = parse_csv("n,m,k\n12,fast,\n-1,2.5,7\n", "runs.csv");
  REQUIRE(table.ok());
  std::vector<Error> errors;
  CsvRowReader first(*table, table->rows[0], errors), second(*table, table->rows[1], errors);
  CHECK(first.count("n") == 12);
  CHECK(!first.number("m"));
  CHECK(!first.number("k"));  // empty, which is no fault
  CHECK(errors.size() == 1);
  CHECK(!second.number("n"));
  CHECK(!second.count("m"));
  CHECK(second.number("m") == 2.5);
  CHECK(!second.number("none"));
  REQUIRE(errors.size() == 3);
  CHECK_THAT(to_string(errors[0]), ContainsSubstring("runs.csv:2:4: 'm' is a number above 0 or "
                                                     "empty, got 'fast'"));
  CHECK_THAT(to_string(errors[1]), ContainsSubstring("runs.csv:3:1"));
  CHECK_THAT(to_string(errors[2]), ContainsSubstring("runs.csv:3:4: 'm' is a whole number"));
}

TEST_CASE("a missing column is named with the one that was meant", "[validation]") {
  const Result<CsvTable> table = parse_csv("id,model,hiden\nx,y,1\n", "runs.csv");
  REQUIRE(table.ok());
  const TrainingRows rows = read_training_rows(*table);
  CHECK(rows.rows.empty());
  bool named = false;
  for (const Error& error : rows.errors) {
    named |= to_string(error).find("no column 'hidden'; is 'hiden' meant?") != std::string::npos;
  }
  CHECK(named);
}

TEST_CASE("what notes say is read by whole words", "[validation]") {
  const TrainingRow row = test::training_row(
      {{"id", "zb-t4-001"}, {"notes", "cp=2; schedule=ZB-2p; m=24; (xcp=9) date 02-25; end"}});
  CHECK(row.group() == "zb-t4");
  CHECK(row.noted("schedule=") == "ZB-2p");
  CHECK(row.noted_count("cp=", 1) == 2);
  CHECK(row.noted_count("ep=", 1) == 1);
  CHECK(row.noted("date ") == "02-25");
  CHECK(!row.ran_out_of_memory());
  CHECK(test::training_row({{"notes", "OOM"}, {"iter_time_s", ""}}).ran_out_of_memory());
}
