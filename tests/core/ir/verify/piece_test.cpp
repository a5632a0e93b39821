#include "tests/catch.hpp"
#include "tests/core/ir/sample.hpp"

using namespace lockstep;

namespace {

/// ZeRO-1 by hand: three parameters held whole by two ranks (padded to four), moments in shards;
/// each rank reduces into its piece of the gradient, updates its piece and gathers the other.
struct WholeParameters {
  std::string piece = "  %b5 param float32 8 view=%b0 @0 piece_of=dp\n";
  std::string gather = "  %4 all_gather dp stream=gather after=%3 args=%b5,%b0\n";
  std::string param = "  %b0 param float32 16 @0\n";
  std::string gradient = "  %b4 grad float32 8 view=%b3 @0 piece_of=dp\n";

  Program program() const {
    return sample::parse(R"(lockstep_program 2
mesh dp_shard=2
group dp dims=dp_shard
group first dims=dp_shard only=0
parameter a shape=3 init=zeros scale=0
function grad own
  formal d read 16
  formal x write 16
  column_sum float32 rows=1 cols=4 x=d -> y=x
function update own
  formal g read 8
  formal w read_write 8
  formal m read_write 8
  formal v read_write 8
  adamw float32 n=2 beta1=0.9 beta2=0.95 eps=1e-08 decay=0.1 grad=g -> w=w m=m v=v
role 0 ranks=0-1 arena=64
  unit u elements=3 shard_elements=2 shard_group=dp param=%b0 adam_m=%b1 adam_v=%b2 whole_param parameters=a:0
)" + param + "  %b1 optimizer float32 8 @16\n" +
                         "  %b2 optimizer float32 8 @24\n" +
                         "  %b3 grad float32 16 @32 live=%1..%3\n" + gradient + piece + R"(
  %b6 input float32 16 @48 live=%0..%1
  %0 host_to_device tokens stream=copy args=%b6
  %1 call grad phase=B stream=compute after=%0 args=%b6,%b3
  %2 reduce_scatter dp stream=reduce after=%1 args=%b3,%b4
  %3 call update stream=compute after=%2 args=%b4,%b5,%b1,%b2
)" + gather);
  }
  std::string faults() const { return sample::faults(program()); }
};

}  // namespace

TEST_CASE("a rank finds its piece of a buffer at its position in the group", "[core][ir]") {
  const Program program = WholeParameters{}.program();
  CHECK(sample::faults(program) == "");
  CHECK(arena_offset(program, 0, {4}) == 32);
  CHECK(arena_offset(program, 1, {4}) == 40);
  CHECK(arena_offset(program, 1, {5}) == 8);
  CHECK(arena_offset(program, 1, {3}) == 32);  // not a piece: one place for all
  CHECK(span_of(program, program.roles[0].buffer({4})).v == 16);
  CHECK(span_of(program, program.roles[0].buffer({1})).v == 8);
  CHECK(parse_program(print(program)).ok());
  CHECK(*parse_program(print(program)) == program);
}

TEST_CASE("parameters held whole must be gathered after the update of a piece", "[core][ir]") {
  WholeParameters broken;
  broken.gather = "";
  CHECK(broken.faults() ==
        "rank 0: %3 update updates one shard of %b0 (param), which holds all of them, and no "
        "all_gather after it brings the others\n");
}

TEST_CASE("a piece is ordered like the whole that its group shares", "[core][ir]") {
  WholeParameters broken;
  broken.gather = "  %4 all_gather dp stream=gather args=%b5,%b0\n";
  CHECK_THAT(broken.faults(), ContainsSubstring("%4 all_gather dp writes %b0 (param) [0, 16) and "
                                                "does not wait for %3 update"));
}

TEST_CASE("a piece that some rank would find outside its parent is refused", "[core][ir]") {
  WholeParameters broken;
  SECTION("too large for all members") {
    broken.piece = "  %b5 param float32 8 view=%b0 @4 piece_of=dp\n";
    CHECK_THAT(broken.faults(), ContainsSubstring("%b5 (16 bytes at 4) lies outside its parent of "
                                                  "16 bytes"));
  }
  SECTION("a rank outside the group") {
    broken.piece = "  %b5 param float32 8 view=%b0 @0 piece_of=first\n";
    CHECK_THAT(broken.faults(),
               ContainsSubstring("rank 1 has no piece, being outside group first"));
  }
  SECTION("a view of a piece") {
    broken.piece = "  %b5 param float32 8 view=%b4 @0\n";
    CHECK_THAT(broken.faults(), ContainsSubstring("%b5 is a view of a piece"));
  }
  SECTION("parameters that hold one shard only") {
    broken.param = "  %b0 param float32 8 @0\n";
    broken.piece = "  %b5 param float32 4 view=%b0 @0 piece_of=dp\n";
    CHECK_THAT(broken.faults(), ContainsSubstring("param %b0 has fewer than 4 elements"));
  }
}
