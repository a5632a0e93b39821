// What a program is given must fit its mesh and the copies that bring it.
#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"
#include "tests/catch.hpp"
#include "tests/core/ir/sample.hpp"

namespace lockstep {
namespace {

/// Two ranks that read four sequences of eight tokens in microbatches of one, half of each.
std::string text(const std::string& given, const std::string& ops) {
  const std::string last = ops.find("%2") == std::string::npos ? "..%0" : "..%2";
  return "lockstep_program 2\nmesh dp=2 cp=2\ntokens_per_step 32\n" + given +
         "function loss own\n  formal x read_write 64\n  formal y read 16\n  formal l write 4\n"
         "  cross_entropy float32 rows=4 cols=4 scale=1 logits=x targets=y:int32 -> dlogits=x "
         "loss=l\n"
         "role 0 ranks=0-3 arena=192\n"
         "  %b0 input int32 16 @0 live=%0..%0\n  %b1 input int32 16 @64 live=%0" +
         last + "\n  %b2 activation float32 64 @128 live=%0" + last +
         "\n  %b3 metric float32 4 @80 live=%0" + last + "\n" + ops;
}

const std::string kSamples =
    "samples tokens length=8 vocabulary=4 per_step=4 microbatch=1 over=dp\n";
const std::string kOrder = "table order dims=cp 0-3 | 4-7\n";
const std::string kCopy = "  %0 host_to_device tokens mb=0 stream=copy args=%b0\n";

std::string faults(const std::string& given, const std::string& ops = kCopy) {
  return sample::faults(sample::parse(text(given, ops)));
}

}  // namespace

TEST_CASE("samples that fit the copies are sound, and no samples are, too", "[core][ir]") {
  CHECK(faults(kSamples + kOrder) == "");
  CHECK(faults("") == "");
}

TEST_CASE(
    "samples must divide into the ranks' microbatches and fill the buffers they are copied to",
    "[core][ir]") {
  const auto samples = [](const std::string& from, const std::string& to) {
    std::string line = kSamples;
    sample::Sample::replace(line, from, to);
    return faults(line + kOrder);
  };
  CHECK_THAT(samples("microbatch=1", "microbatch=3"),
             ContainsSubstring("4 of a step do not divide into 2 shares of microbatches of 3"));
  CHECK_THAT(samples("per_step=4", "per_step=8"),
             ContainsSubstring("8 of 8 targets each are not tokens_per_step 32"));
  CHECK_THAT(faults(kSamples),
             ContainsSubstring("rank 0: %0 host_to_device tokens mb0: its buffer "
                               "has room for 4 elements, a microbatch has 1 × 8"));
  CHECK_THAT(faults(kSamples + kOrder, "  %0 host_to_device tokens mb=2 stream=copy args=%b0\n"),
             ContainsSubstring("a rank's share of a step has 2 microbatches"));
  CHECK_THAT(faults(kSamples + kOrder, "  %0 host_to_device images mb=0 stream=copy args=%b0\n"),
             ContainsSubstring("the program's samples are tokens"));
}

TEST_CASE("a table that a copy brings must be there, and say what its kind can mean",
          "[core][ir]") {
  for (const std::string kind : {"positions", "starts", "columns", "part"}) {
    const std::string copy = "  %0 host_to_device " + kind + " stream=copy args=%b0\n";
    const std::string table = kind == "part" ? "parts" : kind;
    CHECK_THAT(faults(kSamples, copy), ContainsSubstring("there is no table " + table));
    CHECK(faults(kSamples + "table " + table + " 0-3\n", copy) == "");
  }
  CHECK_THAT(faults(kSamples + "table order dims=cp 0-3 | 5-8\n"),
             ContainsSubstring("table order: a rank takes equally many tokens of a sample's 8"));
  CHECK_THAT(faults(kSamples + "table order dims=cp 0-3 | 4-6\n"),
             ContainsSubstring("table order: a rank takes equally many tokens of a sample's 8"));
  CHECK_THAT(faults(kSamples + kOrder + "table shift 0-1\n"),
             ContainsSubstring("table shift: a list of 2 integers"));
}

TEST_CASE("a target that the loss has no column for is found before the run", "[core][ir]") {
  const std::string ops =
      "  %0 host_to_device targets mb=0 stream=copy args=%b1\n"
      "  %1 host_to_device tokens mb=0 stream=copy args=%b2\n"
      "  %2 call loss mb=0 after=%0,%1 args=%b2,%b1,%b3\n";
  std::string wide = kSamples;
  sample::Sample::replace(wide, "vocabulary=4", "vocabulary=5");
  CHECK_THAT(faults(wide + kOrder, ops),
             ContainsSubstring("rank 0: %2 loss mb0: targets are below 5, its cross_entropy has 4 "
                               "columns"));
  CHECK_THAT(faults(kSamples + kOrder, ops), !ContainsSubstring("columns"));
}

TEST_CASE("tables of programs that were not read from text are checked as well", "[core][ir]") {
  Program program = sample::parse(text(kSamples + kOrder, kCopy));
  program.input.tables[0].lists.pop_back();
  CHECK_THAT(sample::faults(program),
             ContainsSubstring("table order has 1 lists; its dimensions have 2 coordinates"));
  program.input.tables[0].lists.assign(2, IndexList{});
  CHECK_THAT(sample::faults(program), ContainsSubstring("table order: a list of 0 integers"));
  program.input.tables[0].dims = {7};
  CHECK_THAT(sample::faults(program), ContainsSubstring("are not different ones of the mesh"));
  program.input.tables.clear();
  program.input.samples.over = {1, 1};
  CHECK_THAT(sample::faults(program),
             ContainsSubstring("samples: the dimensions that divide them"));
}

}  // namespace lockstep
