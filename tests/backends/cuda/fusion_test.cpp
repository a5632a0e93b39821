#include "backends/cuda/fusion.hpp"

#include "tests/catch.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep::cuda {
namespace {

using testing::operand;

constexpr std::int64_t kM = 4, kN = 8, kK = 3;
enum Formal_ { A, B, X, C, Y, Z, kFormals };  // of every function here: one buffer each

Kernel gemm(bool accumulate = false) {
  Kernel k;
  k.kind = KernelKind::Gemm;
  k.accumulate = accumulate;
  k.dims = {kM, kN, kK, 0, 0};
  k.in = {operand(A, DType::F32), operand(B, DType::F32), {}, {}};
  k.out = {operand(C, DType::F32)};
  return k;
}
Kernel elementwise(KernelKind kind, std::vector<int> in, int out) {
  Kernel k;
  k.kind = kind;
  k.dims = {kM * kN};
  for (const int formal : in) k.in.push_back(operand(formal, DType::F32));
  k.out = {operand(out, DType::F32)};
  return k;
}
Kernel gelu() { return elementwise(KernelKind::GeluForward, {C}, Y); }
Kernel gradient(int out = Y) { return elementwise(KernelKind::GeluBackward, {C, X}, out); }

/// What epilogues() says of the first kernel of the first of some calls. All calls have the same
/// buffers, which live through the step, or beyond it if `persistent`.
bool fuses(const std::vector<std::vector<Kernel>>& calls, bool persistent = false) {
  Program program = testing::program_of("dp", 1);
  testing::RoleBuilder role;
  std::vector<BufferId> args;
  for (int i = 0; i < kFormals; ++i) {
    args.push_back(role.buffer(BufferKind::Workspace, DType::F32, kM * kN, persistent));
  }
  for (const auto& kernels : calls) {
    role.op(OpKind::Call, Stream::Compute, testing::add_function(program, "f", {}, kernels), args);
  }
  program.roles.push_back(role.finish({0}));
  return epilogues(program, program.roles[0], {0})[0] >= 0;
}

}  // namespace

TEST_CASE("GELU rides in the epilogue of the product before it", "[backends][cuda]") {
  CHECK(fuses({{gemm(), gelu()}}));
  CHECK(fuses({{gemm(), gelu()}}, true));
  CHECK_FALSE(fuses({{gemm(true), gelu()}}));
  CHECK_FALSE(fuses({{gemm()}}));
  CHECK_FALSE(fuses({{gemm(), elementwise(KernelKind::GeluForward, {X}, Y)}}));  // of other input
  CHECK_FALSE(fuses({{gemm(), elementwise(KernelKind::GeluForward, {C}, A)}}));  // over an operand
  CHECK_FALSE(fuses({{gemm(), elementwise(KernelKind::GeluForward, {C}, C)}}));  // in place
  Kernel residual = gemm();
  residual.in[3] = operand(Z, DType::F32);
  CHECK_FALSE(fuses({{residual, gelu()}}));
  Kernel wide = gemm();
  wide.dtype = DType::BF16;
  CHECK_FALSE(fuses({{wide, gelu()}}));
}

TEST_CASE("GELU's gradient rides along only if nobody misses the product's own result",
          "[backends][cuda]") {
  const Kernel reads_c = elementwise(KernelKind::ReluForward, {C}, Z);
  const Kernel writes_c = elementwise(KernelKind::ReluForward, {X}, C);
  CHECK(fuses({{gemm(), gradient()}}));
  CHECK(fuses({{gemm(), gradient(C)}}, true));  // in place: it leaves what the pair leaves
  CHECK_FALSE(fuses({{gemm(), gradient()}}, true));
  CHECK_FALSE(fuses({{gemm(), gradient(), reads_c}}));
  CHECK(fuses({{gemm(), gradient(), writes_c, reads_c}}));
  CHECK(fuses({{gemm(), gradient(), writes_c}}, true));
  CHECK_FALSE(fuses({{gemm(), gradient()}, {reads_c}}));
  CHECK(fuses({{gemm(), gradient()}, {writes_c}, {reads_c}}));
  CHECK_FALSE(fuses({{gemm(), gradient()}, {gemm(true)}}));  // adds to it
  CHECK_FALSE(fuses({{gemm(), gradient(X)}}));               // over its own argument
}

TEST_CASE("what lies between a product and its GELU may not feel the difference",
          "[backends][cuda]") {
  const auto between = [](int in, int out) {
    return fuses({{gemm(), elementwise(KernelKind::ReluForward, {in}, out), gradient()}});
  };
  CHECK(between(A, Z));
  CHECK(between(X, Z));
  CHECK_FALSE(between(C, Z));  // reads the product
  CHECK_FALSE(between(Y, Z));  // reads what was there before
  CHECK_FALSE(between(A, Y));
  CHECK_FALSE(between(A, X));
  CHECK_FALSE(between(A, C));
}

}  // namespace lockstep::cuda
