#include "core/ir/verify/verify.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/core/ir/sample.hpp"

using namespace lockstep;
using sample::faults;
using sample::Sample;

TEST_CASE("verify accepts a correct step, with one role per rank and folded", "[core][ir]") {
  CHECK(faults(Sample{}) == "");
  CHECK(faults(sample::parse(Sample{}.folded_text())) == "");
}

TEST_CASE("verify accepts an empty program", "[core][ir]") {
  CHECK(faults(sample::parse("lockstep_program 2\nmesh\nrole 0 ranks=0 arena=0\n")) == "");
}

TEST_CASE("verify refuses collectives in different orders", "[core][ir]") {
  // Rank 1 reduces before it gathers; dependencies aside, both lists hold the same two.
  const std::string text =
      faults(Sample{}
                 .edit(1, "%1 all_gather dp stream=gather args=%b0,%b3",
                       "%1 reduce_scatter dp stream=gather args=%b3,%b0")
                 .edit(1, "%6 reduce_scatter dp stream=reduce after=%5 args=%b8,%b9",
                       "%6 all_gather dp stream=reduce after=%5 args=%b9,%b8"));
  REQUIRE_THAT(text, ContainsSubstring("the order of collectives differs"));
  REQUIRE_THAT(text, ContainsSubstring("rank 0: %1 all_gather dp"));
  REQUIRE_THAT(text, ContainsSubstring("rank 1: %1 reduce_scatter dp"));
}

TEST_CASE("verify refuses a collective of another size", "[core][ir]") {
  Sample broken;
  broken.edit(1, "%b9 grad float32 8 @112", "%b9 grad float32 4 @112");
  broken.edit(1, "%b8 grad float32 16 @64", "%b8 grad float32 8 @64");
  // The functions would refuse the small buffers first.
  Program program = sample::parse(broken.text());
  for (Function& function : program.functions) {
    function.kernels.clear();
    for (Formal& formal : function.formals) formal.bytes = Bytes{0};
  }
  const std::string text = faults(program);
  REQUIRE_THAT(text, ContainsSubstring("size or type differs"));
  REQUIRE_THAT(text, ContainsSubstring("rank 0: %6 reduce_scatter dp (16 bytes of float32)"));
  REQUIRE_THAT(text, ContainsSubstring("rank 1: %6 reduce_scatter dp (8 bytes of float32)"));
}

TEST_CASE("verify refuses a collective of another type", "[core][ir]") {
  const std::string text = faults(Sample{}
                                      .edit(1, "%b8 grad float32", "%b8 grad int32")
                                      .edit(1, "%b9 grad float32", "%b9 grad int32"));
  REQUIRE_THAT(text, ContainsSubstring("size or type differs"));
  REQUIRE_THAT(text, ContainsSubstring("rank 1: %6 reduce_scatter dp (16 bytes of int32)"));
}

TEST_CASE("verify refuses a send without a receive", "[core][ir]") {
  const std::string text =
      faults(Sample{}.edit(2, "%1 recv pp=0 phase=F stage=1 mb=0 stream=recv_forward args=%b4",
                           "%1 host_to_device tokens mb=0 stream=copy args=%b4"));
  REQUIRE_THAT(text, ContainsSubstring("rank 0: %3 send F s0 mb0 -> pp1 has no matching receive "
                                       "on rank 2"));
}

TEST_CASE("verify refuses a receive without a send", "[core][ir]") {
  const std::string text = faults(
      Sample{}.edit(3, "%4 send pp=0 phase=B stage=1 mb=0 stream=send_backward after=%3 args=%b6",
                    "%4 device_to_host loss stream=copy after=%3 args=%b6"));
  REQUIRE_THAT(text, ContainsSubstring("rank 1: %4 recv B s0 mb0 <- pp1 has no matching send on "
                                       "rank 3"));
}

TEST_CASE("verify refuses messages of another microbatch or size", "[core][ir]") {
  REQUIRE_THAT(
      faults(Sample{}.edit(2, "%1 recv pp=0 phase=F stage=1 mb=0",
                           "%1 recv pp=0 phase=F stage=1 mb=1")),
      ContainsSubstring("rank 0: %3 send F s0 mb0 -> pp1 meets rank 2: %1 recv F s1 mb1 <- pp0: "
                        "stage or microbatch differs"));
  REQUIRE_THAT(faults(Sample{}.edit(2, "%b4 boundary float32 16", "%b4 boundary int32 16")),
               ContainsSubstring("16 bytes of float32 are sent, 16 bytes of int32 received"));
}

TEST_CASE("verify refuses a crossed send and receive", "[core][ir]") {
  // Both stages receive before they send, on one stream each.
  Sample crossed;
  for (const std::size_t rank : {0u, 1u}) {
    crossed.edit(rank, "stream=send_forward after=%2", "stream=send_forward after=%2,%4");
    // The receive must come first in the list to be waited for.
    const std::string send =
        "  %3 send pp=1 phase=F stage=0 mb=0 stream=send_forward after=%2,%4 "
        "args=%b5\n";
    const std::string recv = "  %4 recv pp=1 phase=B stage=0 mb=0 stream=recv_backward args=%b6\n";
    crossed.edit(rank, send + recv,
                 "  %3 recv pp=1 phase=B stage=0 mb=0 stream=recv_backward args=%b6\n"
                 "  %4 send pp=1 phase=F stage=0 mb=0 stream=send_forward after=%2,%3 args=%b5\n");
    crossed.edit(rank, "live=%4..%5", "live=%3..%5").edit(rank, "live=%2..%3", "live=%2..%4");
  }
  const std::string text = faults(crossed);
  REQUIRE_THAT(text, ContainsSubstring("deadlock: "));
  REQUIRE_THAT(text, ContainsSubstring("rank 0: %4 send F s0 mb0 -> pp1"));
  REQUIRE_THAT(text, ContainsSubstring("rank 2: %1 recv F s1 mb0 <- pp0"));
}

TEST_CASE("verify refuses a dependency cycle", "[core][ir]") {
  const std::string text =
      faults(Sample{}.edit(2, "%1 recv pp=0 phase=F stage=1 mb=0 stream=recv_forward",
                           "%1 recv pp=0 phase=F stage=1 mb=0 stream=recv_forward after=%2"));
  REQUIRE_THAT(text, ContainsSubstring("rank 2: %1 recv waits for %2"));
  REQUIRE_THAT(text, ContainsSubstring("a dependency cycle"));
}

TEST_CASE("verify refuses a read before any write", "[core][ir]") {
  const std::string text =
      faults(Sample{}.edit(0, "%0 host_to_device tokens mb=0 stream=copy args=%b4",
                           "%0 device_to_host loss mb=0 stream=copy args=%b4"));
  REQUIRE_THAT(text, ContainsSubstring("rank 0: %0 device_to_host loss mb0 reads %b4 (input x mb0) "
                                       "[0, 16) before it is written"));
}

TEST_CASE("verify refuses a read of bytes that only a neighbour's write covers", "[core][ir]") {
  // y is written through a view of its first half, then read whole.
  Program program = sample::parse(Sample{}.text());
  Role& role = program.roles[0];
  Buffer half;
  half.bytes = Bytes{16};
  half.set_view({4});
  role.buffers[4].bytes = Bytes{20};
  role.buffers[4].offset = 128;
  role.arena = Bytes{148};
  half.offset = 4;
  role.buffers.push_back(half);
  role.args[role.ops[0].args_begin] = {10};
  REQUIRE_THAT(faults(program), ContainsSubstring("rank 0: %2 fwd s0 mb0 reads %b4 (input x mb0) "
                                                  "[0, 16) before it is written"));
  role.buffers[10].offset = 0;
  CHECK(faults(program) == "");
}

TEST_CASE("verify refuses a missing wait between writer and reader", "[core][ir]") {
  const std::string text =
      faults(Sample{}.edit(1, "%3 send pp=1 phase=F stage=0 mb=0 stream=send_forward after=%2",
                           "%3 send pp=1 phase=F stage=0 mb=0 stream=send_forward"));
  REQUIRE_THAT(text, ContainsSubstring("rank 1: %3 send F s0 mb0 -> pp1 reads %b5 (activation y "
                                       "mb0) [0, 16) and does not wait for %2 fwd s0 mb0 (stream "
                                       "compute), which writes it: a race"));
}

TEST_CASE("verify refuses use after free", "[core][ir]") {
  const std::string text = faults(Sample{}.edit(3, "%b3 param_full float32 16 @32 live=%0..%3",
                                                "%b3 param_full float32 16 @32 live=%0..%2"));
  REQUIRE_THAT(text, ContainsSubstring("rank 3: %3 bwd s1 mb0 uses %b3 (param_full) after it is "
                                       "freed: use after free; its last op is %2 fwd s1 mb0"));
}

TEST_CASE("verify refuses use before allocation", "[core][ir]") {
  REQUIRE_THAT(faults(Sample{}.edit(3, "%b3 param_full float32 16 @32 live=%0..%3",
                                    "%b3 param_full float32 16 @32 live=%1..%3")),
               ContainsSubstring("rank 3: %0 all_gather dp uses %b3 (param_full) before it is "
                                 "allocated, at %1"));
}

TEST_CASE("verify refuses living buffers that overlap in the arena", "[core][ir]") {
  const std::string text =
      faults(Sample{}.edit(1, "%b6 boundary float32 16 @80", "%b6 boundary float32 16 @56"));
  REQUIRE_THAT(text, ContainsSubstring("rank 1: buffers %b6 (boundary mb0) and %b4 (input x mb0) "
                                       "overlap in the arena and are alive together at %4 (recv B "
                                       "s0 mb0 <- pp1)"));
}

TEST_CASE("verify refuses persistent buffers that overlap", "[core][ir]") {
  REQUIRE_THAT(
      faults(Sample{}.edit(1, "%b2 optimizer float32 8 @16", "%b2 optimizer float32 8 @12")),
      ContainsSubstring("rank 1: buffers %b2 (optimizer) and %b1 (optimizer) overlap"));
}

TEST_CASE("verify refuses reuse of bytes that another stream may still be reading", "[core][ir]") {
  // gw takes the place of y while the send of y may still run.
  const std::string text =
      faults(Sample{}.edit(0, "stream=compute after=%3,%4", "stream=compute after=%4"));
  REQUIRE_THAT(text, ContainsSubstring("rank 0: %5 bwd s0 mb0 uses %b8 (grad gw), which overlaps "
                                       "in the arena with a buffer that %3 send F s0 mb0 -> pp1 "
                                       "uses, and does not wait for it"));
}

TEST_CASE("verify refuses a parameter that never gets its gradient", "[core][ir]") {
  SECTION("no update at all") {
    const std::string text = faults(Sample{}.edit_stage(
        0, "%7 call update phase=O stream=compute after=%6 args=%b9,%b0,%b1,%b2",
        "%7 device_to_host loss stream=copy after=%6 args=%b9"));
    REQUIRE_THAT(text,
                 ContainsSubstring("rank 0: parameter shard of stage0 has optimizer state "
                                   "but never gets its gradient: no adamw writes %b0 (param)"));
  }
  SECTION("a gradient that is zeroed, never computed") {
    Sample broken;
    broken.edit_stage(1, "%3 call bwd phase=B stage=1 mb=0 stream=compute args=%b5,%b4,%b3,%b6,%b7",
                      "%3 call zero stream=compute args=%b7");
    broken.edit_stage(1, "%4 send pp=0 phase=B stage=1 mb=0 stream=send_backward after=%3 args=%b6",
                      "%4 send pp=0 phase=B stage=1 mb=0 stream=send_backward after=%3 args=%b5");
    broken.edit_stage(1, "%b5 activation float32 16 @64 mb=0 name=y live=%2..%3",
                      "%b5 activation float32 16 @64 mb=0 name=y live=%2..%4");
    REQUIRE_THAT(faults(broken),
                 ContainsSubstring("rank 2: %6 update updates parameter shard of stage1, but its "
                                   "gradient %b8 (grad) was never computed"));
  }
}

TEST_CASE("verify follows an unsharded unit parameter by parameter", "[core][ir]") {
  const auto program = [](std::string_view second_gradient) {
    return sample::parse(R"(lockstep_program 2
mesh
parameter a shape=4 init=zeros scale=0
parameter b shape=4 init=zeros scale=0
function grad own
  formal x write 16
  fill float32 n=4 value=1 -> y=x
  gelu_forward float32 n=4 x=x -> y=x
function fill own
  formal x write 16
  fill float32 n=4 value=1 -> y=x
function update own
  formal g read 32
  formal w read_write 32
  formal m read_write 32
  formal v read_write 32
  adamw float32 n=8 beta1=0.9 beta2=0.95 eps=1e-08 decay=0.1 grad=g -> w=w m=m v=v
role 0 ranks=0 arena=128
  unit u elements=8 shard_elements=8 param=%b0 adam_m=%b1 adam_v=%b2 parameters=a:0,b:4
  %b0 param float32 32 @0
  %b1 optimizer float32 32 @32
  %b2 optimizer float32 32 @64
  %b3 grad float32 32 @96 live=%0..%2
  %b4 grad float32 16 view=%b3 @0
  %b5 grad float32 16 view=%b3 @16
  %0 call grad stream=compute args=%b4
  %1 call )" + std::string(second_gradient) +
                         R"( stream=compute args=%b5
  %2 call update stream=compute args=%b3,%b0,%b1,%b2
)");
  };
  CHECK(faults(program("grad")) == "");
  CHECK(faults(program("fill")) ==
        "rank 0: %2 update updates parameter b, but its gradient %b3 (grad) was never computed\n");
}

TEST_CASE("verify refuses a group with a missing member", "[core][ir]") {
  Sample fewer;  // rank 1 does without its last collective
  fewer.edit(1, "%6 reduce_scatter dp stream=reduce after=%5 args=%b8,%b9",
             "%6 host_to_device tokens stream=reduce after=%5 args=%b9");
  REQUIRE_THAT(faults(fewer), ContainsSubstring("group dp: rank 0 issues 2 collectives but rank 1 "
                                                "issues 1: a member is missing from rank 0: %6 "
                                                "reduce_scatter dp"));
  Sample none = fewer;
  none.edit(1, "%1 all_gather dp stream=gather args=%b0,%b3",
            "%1 host_to_device tokens stream=gather args=%b3");
  REQUIRE_THAT(faults(none), ContainsSubstring("group dp: member rank 1 is missing: it issues no "
                                               "collective, but rank 0: %1 all_gather dp"));
}

TEST_CASE("verify refuses unequal microbatch counts in a data-parallel group", "[core][ir]") {
  // Rank 1 calls its forward a second time, for another microbatch.
  const std::string text = faults(
      Sample{}.edit(1, "%7 call update phase=O stream=compute after=%6 args=%b9,%b0,%b1,%b2\n",
                    "%7 call update phase=O stream=compute after=%6 args=%b9,%b0,%b1,%b2\n"
                    "  %8 call zero phase=F stage=0 mb=1 stream=compute args=%b7\n"));
  REQUIRE_THAT(text,
               ContainsSubstring("unequal microbatch counts: rank 0 runs 1 microbatches (last "
                                 "rank 0: %2 fwd s0 mb0), rank 1"));
  REQUIRE_THAT(text, ContainsSubstring("2 (last rank 1: %8 zero s0 mb1)"));
}

TEST_CASE("verify refuses unequal batches in a data-parallel group", "[core][ir]") {
  // Rank 1 takes eight bytes more, for nobody.
  const std::string text = faults(
      Sample{}.edit(1, "%7 call update phase=O stream=compute after=%6 args=%b9,%b0,%b1,%b2\n",
                    "%7 call update phase=O stream=compute after=%6 args=%b9,%b0,%b1,%b2\n"
                    "  %8 host_to_device targets mb=0 stream=copy after=%6 args=%b9\n"));
  REQUIRE_THAT(
      text, ContainsSubstring("unequal batches: rank 0 takes 16 bytes of inputs and targets (last "
                              "rank 0: %0 host_to_device tokens mb0), rank 1"));
  REQUIRE_THAT(text, ContainsSubstring("24 (last rank 1: %8 host_to_device targets mb0)"));
}

TEST_CASE("verify refuses an op on a rank outside its group", "[core][ir]") {
  const std::string text = faults(Sample{}.edit_stage(
      1, "%6 call update", "%6 all_reduce first stream=reduce args=%b0\n  %7 call update"));
  REQUIRE_THAT(text, ContainsSubstring("rank 2: %6 all_reduce first: the rank is outside its group "
                                       "first"));
}

TEST_CASE("verify refuses collectives without a total order", "[core][ir]") {
  // Ranks 0..3 as a square. Each rank issues its row's and its column's all-reduce on streams of
  // their own, which alone would work; in list order rank 0 waits for 1, 1 for 3, 3 for 2, 2 for 0.
  std::string text = "lockstep_program 2\nmesh a=2 b=2\ngroup row dims=b\ngroup column dims=a\n";
  const bool row_first[] = {true, false, false, true};
  for (int rank = 0; rank < 4; ++rank) {
    const bool row = row_first[rank];
    text += "role " + std::to_string(rank) + " ranks=" + std::to_string(rank) + " arena=8\n" +
            "  %b0 grad float32 4 @0\n  %b1 grad float32 4 @4\n" +
            (row ? "  %0 all_reduce row stream=reduce args=%b0\n"
                   "  %1 all_reduce column stream=gather args=%b1\n"
                 : "  %0 all_reduce column stream=gather args=%b1\n"
                   "  %1 all_reduce row stream=reduce args=%b0\n");
  }
  const std::string found = faults(sample::parse(text));
  REQUIRE_THAT(found, ContainsSubstring("no total order of collectives"));
  REQUIRE_THAT(found, ContainsSubstring("rank 0: %0 all_reduce row"));
  REQUIRE_THAT(found, ContainsSubstring("rank 3: %0 all_reduce row"));
  CHECK(std::count(found.begin(), found.end(), '\n') == 1);  // and no deadlock of streams
}

TEST_CASE("verify lets a stream run ahead of what its list waits for", "[core][ir]") {
  // Rank 0 computes with what rank 1 sends, and lists that before its own message, of which rank 1
  // makes what it sends. Only where the message waits for the call do both wait for ever.
  const auto program = [](std::string_view after) {
    return sample::parse(R"(lockstep_program 2
mesh pp=2
function copy own
  formal x read 4
  formal y write 4
  gemm float32 m=1 n=1 k=1 ta=0 tb=0 a=x b=x -> c=y
role 0 ranks=0 arena=12
  %b0 boundary float32 4 @0
  %b1 boundary float32 4 @4
  %b2 boundary float32 4 @8
  %0 recv pp=1 mb=0 stream=recv_backward args=%b0
  %1 call copy mb=0 stream=compute after=%0 args=%b0,%b1
  %2 send pp=1 mb=0 stream=send_forward)" +
                         std::string(after) + R"( args=%b2
role 1 ranks=1 arena=8
  %b0 boundary float32 4 @0
  %b1 boundary float32 4 @4
  %0 recv pp=0 mb=0 stream=recv_forward args=%b0
  %1 call copy mb=0 stream=compute after=%0 args=%b0,%b1
  %2 send pp=0 mb=0 stream=send_backward after=%1 args=%b1
)");
  };
  CHECK(faults(program("")) == "");
  const std::string found = faults(program(" after=%1"));
  REQUIRE_THAT(found, ContainsSubstring("deadlock: "));
  REQUIRE_THAT(found, ContainsSubstring("rank 0: %2 send"));
}

TEST_CASE("verify tells a race of roles that are alike of the first one", "[core][ir]") {
  const std::string found = faults(
      Sample{}.edit_stage(0, "stream=compute after=%0,%1 args=", "stream=compute after=%1 args="));
  REQUIRE_THAT(found, ContainsSubstring("rank 0: %2 fwd"));
  CHECK(found.find("rank 1: %2") == std::string::npos);
}

TEST_CASE("verify refuses writes that do not wait for each other", "[core][ir]") {
  const std::string found = faults(sample::parse(R"(lockstep_program 2
mesh
role 0 ranks=0 arena=8
  %b0 input float32 8 @0
  %b1 input float32 4 view=%b0 @4
  %0 host_to_device tokens stream=copy args=%b0
  %1 host_to_device tokens stream=compute args=%b1
)"));
  REQUIRE_THAT(found,
               ContainsSubstring("rank 0: %1 host_to_device tokens writes %b0 (input) [4, 8) "
                                 "and does not wait for %0"));
}

TEST_CASE("verify refuses faults of structure", "[core][ir]") {
  Program program = sample::parse(Sample{}.text());
  Role& role = program.roles[1];
  SECTION("a call with a buffer too small for its formal") {
    role.buffers[4].bytes = Bytes{12};
    REQUIRE_THAT(faults(program), ContainsSubstring("rank 1: %2 fwd s0 mb0: %b4 (input x mb0) has "
                                                    "12 bytes, but formal x needs 16"));
  }
  SECTION("an unknown function") {
    role.ops[2].target = 99;
    REQUIRE_THAT(faults(program), ContainsSubstring("rank 1: %2 call: target 99 does not exist"));
  }
  SECTION("an unknown buffer") {
    role.args[0] = {77};
    REQUIRE_THAT(faults(program), ContainsSubstring("rank 1: %0 host_to_device: buffer %b77 does "
                                                    "not exist"));
  }
  SECTION("slices outside their pools") {
    role.ops[3].args_begin = 1u << 30;
    REQUIRE_THAT(faults(program), ContainsSubstring("rank 1: %3 send: its lists lie outside"));
  }
  SECTION("a view outside its parent, and views in a circle") {
    role.buffers[7].set_view({8});
    role.buffers[7].offset = 4;
    REQUIRE_THAT(faults(program), ContainsSubstring("rank 1: %b7 (16 bytes at 4) lies outside its "
                                                    "parent of 16 bytes"));
    role.buffers[7].offset = 0;
    role.buffers[8].set_view({7});
    role.buffers[8].offset = 0;
    REQUIRE_THAT(faults(program), ContainsSubstring("is a view of itself"));
  }
  SECTION("a buffer outside the arena") {
    role.arena = Bytes{100};
    REQUIRE_THAT(faults(program), ContainsSubstring("rank 1: %b7 (16 bytes at 96) lies outside its "
                                                    "arena of 100 bytes"));
  }
  SECTION("a peer that is the rank itself") {
    role.ops[3].target = 0;
    REQUIRE_THAT(faults(program),
                 ContainsSubstring("rank 1: %3 send F s0 mb0 -> pp0: the peer is the rank itself"));
  }
  SECTION("a rank without a role, and with two") {
    program.role_of_rank[1] = {0};
    REQUIRE_THAT(faults(program), ContainsSubstring("rank 1 has more than one role"));
    program.roles[1].ranks.clear();
    REQUIRE_THAT(faults(program), ContainsSubstring("role 1 has no ranks"));
  }
  SECTION("an operand outside its formal, of the wrong access, missing") {
    program.functions[0].kernels[0].in[0].offset = 4;
    REQUIRE_THAT(faults(program), ContainsSubstring("fwd: gemm: operand a lies outside formal x"));
    program.functions[0].kernels[0].in[0].offset = 0;
    program.functions[0].formals[2].access = Access::Read;
    REQUIRE_THAT(faults(program), ContainsSubstring("operand c writes formal y, which is declared "
                                                    "as read only"));
    program.functions[0].formals[2].access = Access::Write;
    program.functions[0].kernels[0].accumulate = true;
    REQUIRE_THAT(faults(program), ContainsSubstring("operand c reads formal y, which is declared "
                                                    "as written only"));
    program.functions[0].kernels[0].in.clear();
    REQUIRE_THAT(faults(program), ContainsSubstring("fwd: gemm: operand a is missing"));
  }
  SECTION("a shard that is not the group's part of the whole") {
    role.buffers[9].bytes = Bytes{12};
    REQUIRE_THAT(faults(program), ContainsSubstring("rank 1: %6 reduce_scatter dp: 16 bytes cannot "
                                                    "become 12 bytes in a group of 2"));
  }
}

TEST_CASE("verify holds kernels to their rows", "[core][ir]") {
  Program program = sample::parse(Sample{}.text());
  Kernel& kernel = program.functions[0].kernels[0];
  SECTION("a type that the operand may not have") {
    kernel.out[0].dtype = DType::F64;
    REQUIRE_THAT(faults(program),
                 ContainsSubstring("fwd: gemm: operand c is float64, not float32"));
  }
  SECTION("accumulation into an output that is overwritten") {
    kernel = {};
    kernel.kind = KernelKind::GeluForward;
    kernel.accumulate = true;
    kernel.in = {{0, DType::F32, 0}};
    kernel.out = {{2, DType::F32, 0}};
    REQUIRE_THAT(faults(program), ContainsSubstring("fwd: gelu_forward: cannot accumulate"));
  }
  SECTION("operands that do not go with the dimensions") {
    kernel = {};
    kernel.kind = KernelKind::AttentionForward;
    kernel.in = {{0, DType::F32, 0}};
    kernel.out = {{2, DType::F32, 0}, {2, DType::F32, 0}};
    kernel.dims[5] = 2;
    REQUIRE_THAT(faults(program),
                 ContainsSubstring("operand starts is missing, but parts is not 0"));
    kernel.in = {{0, DType::F32, 0}, {0, DType::F32, 0}};
    kernel.dims[5] = 0;
    REQUIRE_THAT(faults(program), ContainsSubstring("operand kv is given, but parts is 0"));
  }
  SECTION("a shape that the kernel does not have") {
    kernel = {};
    kernel.kind = KernelKind::MaxPoolForward;
    kernel.dims = {1, 1, 1, 1, 2, 1};
    kernel.in = {{0, DType::F32, 0}};
    kernel.out = {{2, DType::F32, 0}};
    REQUIRE_THAT(faults(program), ContainsSubstring("fwd: max_pool_forward: even kernel"));
  }
}

TEST_CASE("verify refuses parameters that are not split as they say", "[core][ir]") {
  const auto split = [](const char* how) {
    return faults(Sample{}.edit_head("parameter stage0.w shape=2x2 init=normal scale=0.02",
                                     std::string("parameter stage0.w shape=2x2 init=normal "
                                                 "scale=0.02 ") +
                                         how));
  };
  CHECK(split("split=0 sections=1,1") == "");
  REQUIRE_THAT(split("split=2 sections=2"), ContainsSubstring("along dimension 2"));
  REQUIRE_THAT(split("split=1 sections=1"), ContainsSubstring("do not add up to the 2"));
  REQUIRE_THAT(split("split=1 sections=3,-1"), ContainsSubstring("do not add up to the 2"));
  REQUIRE_THAT(split("sections=2"), ContainsSubstring("no split dimension"));
  // Half of the rows: the unit's two elements are enough for it, one is not.
  Sample held;
  held.edit_head("scale=0.02\nparameter stage1.w",
                 "scale=0.02 split=0 sections=2\nparameter stage1.w");
  held.edit(0, "elements=4", "elements=2 split_group=dp");
  REQUIRE_THAT(faults(held), !ContainsSubstring("lies outside"));
  held.edit(0, "elements=2 split", "elements=1 split");
  REQUIRE_THAT(faults(held), ContainsSubstring("lies outside its 1 elements"));
}

TEST_CASE("verify stops at its limit of faults", "[core][ir]") {
  std::string text = "lockstep_program 2\nmesh\nrole 0 ranks=0 arena=0\n";
  for (int i = 0; i < 1000; ++i) {
    text += "  %" + std::to_string(i) + " host_to_device tokens\n";  // no argument
  }
  CHECK(verify(sample::parse(text)).size() == 64);
}
