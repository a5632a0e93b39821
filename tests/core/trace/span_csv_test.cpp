#include "core/trace/span_csv.hpp"

#include "core/trace/gzip_file.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

Trace small_trace() {
  Trace trace;
  trace.names = {"block.F", "forward", "all_reduce \"dp\", layer 1", "all_reduce"};
  trace.streams = {"compute", "reduce"};
  TraceOp forward, reduce;
  forward.name = 0;
  forward.kind = 1;
  forward.stage = 2;
  forward.microbatch = 3;
  reduce.name = 2;
  reduce.kind = 3;
  reduce.stream = 1;
  reduce.layer = 1;
  reduce.bytes = 4096;
  trace.roles = {{{forward, reduce}}};
  trace.role_of_rank = {0};
  trace.same_as = {0};
  trace.rank_labels = {"rank 0"};
  trace.spans = {{0, OpId{0}, 0, SimTime{0}, SimTime{0}, SimTime{1'500'000}},
                 {0, OpId{1}, 0, SimTime{1'500'000}, SimTime{2'000'001}, SimTime{3'000'000}}};
  return trace;
}

constexpr const char* kExpected =
    "step,rank,stream,operation,kind,stage,microbatch,layer,begin_us,active_us,end_us,bytes\n"
    "0,0,compute,block.F,forward,2,3,,0.000000,0.000000,1.500000,\n"
    "0,0,reduce,\"all_reduce \"\"dp\"\", layer "
    "1\",all_reduce,,,1,1.500000,2.000001,3.000000,4096\n";

TEST_CASE("spans are lines of plain numbers, names quoted where they must be", "[core][trace]") {
  const TemporaryFolder folder;
  REQUIRE(write_span_csv(small_trace(), folder / "spans.csv").ok());
  CHECK(read_bytes(folder / "spans.csv") == kExpected);
  REQUIRE(write_span_csv(small_trace(), folder / "spans.csv.gz").ok());
  GzipReader reader(folder / "spans.csv.gz");
  CHECK(std::string(reader.begin(), reader.end()) == kExpected);
}

TEST_CASE("a file that cannot be written is an error, and leaves nothing", "[core][trace]") {
  const TemporaryFolder folder;
  CHECK_FALSE(write_span_csv(small_trace(), folder / "no/such/spans.csv").ok());
}

}  // namespace
}  // namespace lockstep
