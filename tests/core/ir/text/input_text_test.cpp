// Tests the lines of a program's text that say what it is given.
#include "core/ir/text/text.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

std::string error_of(const std::string& lines) {
  const Result<Program> result =
      parse_program("lockstep_program 2\nmesh cp=2 tp=2\n" + lines + "\n", "p.txt");
  return result.ok() ? "" : to_string(result.error());
}

}  // namespace

TEST_CASE("a table's ranges read as the integers they stand for, a list for every coordinate",
          "[core][ir]") {
  const Result<Program> program = parse_program(
      "lockstep_program 2\nmesh cp=2 tp=2\n"
      "table positions dims=tp,cp 0-2,9 | 3 | 0 , 5 - 6 | 7-7 # a comment\n");
  REQUIRE(program.ok());
  const IndexTable* table = program->input.table(TableKind::Positions);
  REQUIRE(table != nullptr);
  CHECK(program->input.table(TableKind::Order) == nullptr);
  std::vector<std::vector<std::int32_t>> read;
  for (Rank rank = 0; rank < 4; ++rank) {
    const IndexList& list = table->lists[position_over(program->mesh, table->dims, rank)];
    read.emplace_back(5);
    list.fill(read.back());
    CHECK(list.size() == std::vector<std::int64_t>{4, 3, 1, 1}[rank]);
  }
  // Ranks are (cp, tp) = (0, 0), (0, 1), (1, 0), (1, 1); the table's lists (tp, cp). A list that is
  // shorter than what it fills begins again.
  CHECK(read == std::vector<std::vector<std::int32_t>>{
                    {0, 1, 2, 9, 0}, {0, 5, 6, 0, 5}, {3, 3, 3, 3, 3}, {7, 7, 7, 7, 7}});
}

TEST_CASE("faults of what a program is given name the place and what would be right",
          "[core][ir]") {
  const std::string samples = "samples tokens length=8 vocabulary=5 per_step=4 microbatch=2";
  CHECK(error_of(samples) == "");
  CHECK(error_of(samples + " over=cp,tp unshuffled") == "");
  CHECK(error_of(samples + " document_end=3 mean_document=2.5 masked=3 mask_token=4") == "");
  CHECK(error_of(samples + " masked=3") ==
        "p.txt:3:9: \"masked=\" and \"mask_token=\" need each other");
  CHECK(error_of(samples + " masked=9 mask_token=4") ==
        "p.txt:3:9: masked tokens are some of a sample, and of the vocabulary");
  CHECK(error_of(samples + " document_end=3 mean_document=2 ignores_ends masked=3 mask_token=4") ==
        "p.txt:3:9: no end of a document is masked, so there is none to ignore");
  CHECK(error_of(samples + " document_end=3 mean_document=2.5 ignores_ends") == "");
  CHECK(error_of(samples + " ignores_ends") ==
        "p.txt:3:9: \"ignores_ends\" needs \"document_end=\"");
  CHECK(error_of(samples + " document_end=3 mean_document=0.5") ==
        "p.txt:3:91: a document has a token or more");
  CHECK(error_of("samples token length=8") ==
        "p.txt:3:9: unknown kind of samples \"token\"; did you mean \"tokens\"?");
  CHECK(error_of("samples tokens length=8") == "p.txt:3:9: samples need \"vocabulary=\"");
  CHECK(error_of("samples tokens lenght=8") ==
        "p.txt:3:16: unknown key \"lenght\"; did you mean \"length\"?");
  CHECK(error_of("samples tokens size=8") == "p.txt:3:16: samples of tokens have no \"size\"");
  CHECK(error_of("samples tokens length=0") == "p.txt:3:23: \"length\" must lie in 1 … 2^31 - 1");
  CHECK(error_of(samples + " over=dp") ==
        "p.txt:3:67: unknown mesh dimension \"dp\"; did you mean \"cp\"?");
  CHECK(error_of(samples + " over=tp,tp") == "p.txt:3:70: the mesh dimension stands twice");
  CHECK(error_of(samples + "\n" + samples) == "p.txt:4:9: \"samples\" stands twice");
  CHECK(error_of("samples images size=8 mean=0,0") ==
        "p.txt:3:31: expected ',', found the end of the line");
  CHECK(error_of("samples images size=8 deviation=1,0,1") == "p.txt:3:35: it is a divisor");

  CHECK(error_of("table order 0-3") == "");
  CHECK(error_of("table odrer 0-3") ==
        "p.txt:3:7: unknown table \"odrer\"; did you mean \"order\"?");
  CHECK(error_of("table order dims=tp 0-3") ==
        "p.txt:3:7: table order has 1 lists; its dimensions have 2 coordinates");
  CHECK(error_of("table order 0-3 | 4") ==
        "p.txt:3:7: table order has 2 lists; its dimensions have 1 coordinates");
  CHECK(error_of("table order dims=tp 0-3 |") ==
        "p.txt:3:26: expected a number, found the end of the line");
  CHECK(error_of("table order 3-0") ==
        "p.txt:3:13: a range goes up from an integer that is not negative");
  CHECK(error_of("table order -3") ==
        "p.txt:3:13: a range goes up from an integer that is not negative");
  CHECK(error_of("table order 0-9999999999") ==
        "p.txt:3:15: the number \"9999999999\" is out of range");
  CHECK(error_of("table shift 0\ntable shift 0") == "p.txt:4:7: table shift stands twice");

  CHECK(error_of("learning_rate 1e-3 warmup=3 decay=cosine from=5 steps=5 minimum=0.1") == "");
  CHECK(error_of("learning_rate 1e-3 warmup=-3") ==
        "p.txt:3:27: a number of steps is not negative");
  CHECK(error_of("learning_rate 1e-3 decay=cosin") ==
        "p.txt:3:26: unknown decay \"cosin\"; did you mean \"cosine\"?");
  CHECK(error_of("learning_rate inf") == "p.txt:3:15: the number must be finite");
  CHECK(error_of("seed -1") == "p.txt:3:6: expected a number, found \"-1\"");
  CHECK(error_of("steps -1") == "p.txt:3:7: steps are not negative");
  CHECK(error_of("group g\nseed 1") == "p.txt:4:1: \"seed\" must stand further up");
}

}  // namespace lockstep
