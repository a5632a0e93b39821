// What verify says of products in 8 bits that take their factors otherwise than these were made,
// and of scales that not all ranks share.
#include "core/base/float8.hpp"

#include <algorithm>

#include "core/ir/verify/verify.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

namespace {

Scenario narrow(Fp8Scaling recipe, int tp) {
  Scenario s = test::tiny_scenario(Architecture::Gpt2, {.replicate = 2});
  s.strategy.tensor_parallel_degree = tp;
  s.model.head_dim = 8;
  s.training.fp8 = Fp8Format::Hybrid;
  s.training.fp8_recipe = recipe;
  if (recipe == Fp8Scaling::Blockwise) s.training.fp8_block_size = 4;
  if (recipe == Fp8Scaling::Delayed) s.training.fp8_amax_history_len = 3;
  return s;
}

std::string first_fault(const Program& program) {
  const auto faults = verify(program);
  return faults.empty() ? "sound" : faults.front().message;
}

/// What verify says if `change` is made to every kernel of a kind, as if the library had made it
/// so.
template <class Change>
std::string fault_after(Program program, KernelKind kind, Change&& change) {
  for (Function& f : program.functions) {
    const bool has = std::any_of(f.kernels.begin(), f.kernels.end(),
                                 [&](const Kernel& k) { return k.kind == kind; });
    if (!has) continue;
    for (Kernel& k : f.kernels) {
      if (k.kind == kind) change(k);
    }
    if (f.emitted != 0) f.emitted = fingerprint(f);
  }
  return first_fault(program);
}

Op& largest_of(Program& program) {
  for (Role& role : program.roles) {
    for (Op& op : role.ops) {
      if (op.largest) return op;
    }
  }
  FAIL("no all-reduce takes the largest");
  return program.roles[0].ops[OpId{0}];
}

}  // namespace

TEST_CASE("a product takes codes in the blocks in which they were made", "[core][ir][fp8]") {
  const Program program = test::lowered(narrow(Fp8Scaling::Blockwise, 1));
  CHECK(first_fault(program) == "sound");
  const auto product = [&](auto&& change) {
    return fault_after(program, KernelKind::ScaledGemm, change);
  };
  CHECK_THAT(product([](Kernel& k) { k.dims[5] = 8; }),
             ContainsSubstring("in blocks of 1 x 4") && ContainsSubstring("in blocks of 1 x 8"));
  CHECK_THAT(product([](Kernel& k) { k.dims[4] = 8; }), ContainsSubstring("in blocks of 8 x 4"));
  CHECK_THAT(product([](Kernel& k) { k.scalars[0] = kE5M2; }),
             ContainsSubstring("is multiplied as") && ContainsSubstring("2 bits of mantissa"));
  CHECK_THAT(product([](Kernel& k) { k.in[4] = k.in[5]; }),
             ContainsSubstring("a_scales") && ContainsSubstring("in blocks of 4 x 4"));
  // The rows of a matrix are not those of its transpose, whatever the blocks.
  CHECK_THAT(fault_after(program, KernelKind::Quantize,
                         [](Kernel& k) {
                           if (k.dims[0] != k.dims[1]) k.dims[2] ^= 1;
                         }),
             ContainsSubstring("rows of"));
}

TEST_CASE("a product of counted rows takes codes as they were padded", "[core][ir][fp8]") {
  Scenario s = test::tiny_scenario(Architecture::Llama, {.shard = 2});
  s.model.head_dim = 8;
  s.model.experts = 4;
  s.model.capacity_factor = 0;
  s.model.ffn_hidden = 48;
  s.strategy.expert_parallel_degree = 2;
  s.training.fp8 = Fp8Format::Hybrid;
  s.training.fp8_block_size = 4;
  const Program program = test::lowered(s);
  CHECK(first_fault(program) == "sound");
  const auto changed = [&](KernelKind kind, auto&& change) {
    return fault_after(program, kind, change);
  };
  CHECK_THAT(changed(KernelKind::RaggedScaledGemm, [](Kernel& k) { k.dims[6] = 8; }),
             ContainsSubstring("in blocks of 4 x 4") && ContainsSubstring("in blocks of 8 x 4"));
  CHECK_THAT(changed(KernelKind::RaggedScaledGemm, [](Kernel& k) { k.scalars[0] = kE5M2; }),
             ContainsSubstring("is multiplied as") && ContainsSubstring("2 bits of mantissa"));
  CHECK_THAT(changed(KernelKind::RaggedScaledGemmWeight, [](Kernel& k) { k.dims[2] -= k.dims[6]; }),
             ContainsSubstring("is multiplied as"));
  CHECK_THAT(changed(KernelKind::RaggedScaledGemm, [](Kernel& k) { k.in[4].formal = -1; }),
             ContainsSubstring("counts"));
}

TEST_CASE("scales from earlier steps are those of all ranks", "[core][ir][fp8]") {
  const Program program = test::lowered(narrow(Fp8Scaling::Delayed, 2));
  CHECK(first_fault(program) == "sound");

  Program sums = program;
  largest_of(sums).largest = false;
  CHECK_THAT(first_fault(sums), ContainsSubstring("a term of a maximum"));

  Program maxima = program;
  for (Role& role : maxima.roles) {
    for (Op& op : role.ops) op.largest = op.kind == OpKind::AllReduce && op.phase != Phase::O;
  }
  CHECK_THAT(first_fault(maxima), ContainsSubstring("which all_reduce does not take"));

  Program alone = program;
  Op& op = largest_of(alone);
  op.kind = OpKind::Broadcast;
  op.largest = false;
  CHECK(first_fault(alone) != "sound");

  Program shorter = program;
  for (Role& role : shorter.roles) {
    for (Unit& unit : role.units) unit.history = std::min<std::int64_t>(unit.history, 2);
  }
  CHECK(first_fault(shorter) != "sound");
}
