#include "tests/catch.hpp"
#include "tests/core/ir/sample.hpp"

using namespace lockstep;

namespace {

/// One rank whose optimizer updates a float32 master copy of bfloat16 parameters.
struct MasterCopy {
  std::string weights = "%b1";
  std::string round = "  %2 call round stream=compute args=%b1,%b0\n";

  std::string faults() const {
    return sample::faults(sample::parse(R"(lockstep_program 2
mesh dp_shard=1
parameter a shape=3 init=zeros scale=0
function grad own
  formal x write 12
  fill float32 n=3 value=1 -> y=x
  gelu_forward float32 n=3 x=x -> y=x
function update own
  formal g read 12
  formal w read_write 12
  formal m read_write 12
  formal v read_write 12
  adamw float32 n=3 beta1=0.9 beta2=0.95 eps=1e-08 decay=0.1 grad=g -> w=w m=m v=v
function round own
  formal x read 12
  formal y write 6
  column_sum float32 rows=1 cols=3 x=x -> y=y:bfloat16
role 0 ranks=0 arena=56
  unit u elements=3 shard_elements=3 param=%b0 master=%b1 adam_m=%b2 adam_v=%b3 parameters=a:0
  %b0 param bfloat16 6 @0
  %b1 master float32 12 @8
  %b2 optimizer float32 12 @20
  %b3 optimizer float32 12 @32
  %b4 grad float32 12 @44 live=%0..%1
  %0 call grad stream=compute args=%b4
  %1 call update stream=compute args=%b4,)" +
                                        weights + ",%b2,%b3\n" + round));
  }
};

}  // namespace

TEST_CASE("a master copy is updated, and the parameters rounded from it", "[core][ir]") {
  CHECK(MasterCopy{}.faults() == "");
}

TEST_CASE("parameters left behind by their master copy are refused", "[core][ir]") {
  MasterCopy broken;
  broken.round = "";
  CHECK(broken.faults() ==
        "rank 0: %1 update updates %b1 (master), and nothing after it brings %b0 (param) up to "
        "date\n");
}
