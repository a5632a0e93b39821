// Products in 8 bits of experts that drop no token: what is padded, and that nothing more is sent.
#include <algorithm>

#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

namespace {

Scenario dropless(int ep) {
  Scenario s = test::tiny_scenario(Architecture::Llama, {.shard = 2});
  s.model.head_dim = 8;
  s.model.ffn_hidden = 48;
  s.model.experts = 4;
  s.model.capacity_factor = 0;
  s.strategy.expert_parallel_degree = ep;
  s.training.fp8 = Fp8Format::Hybrid;
  s.training.fp8_block_size = 4;
  return s;
}

/// Calls body(kernel) for every kernel of a kind that the program's functions have.
template <class Body>
int for_kernels(const Program& program, KernelKind kind, const Body& body) {
  int found = 0;
  for (const Function& f : program.functions) {
    for (const Kernel& k : f.kernels) {
      if (k.kind != kind) continue;
      ++found;
      body(k);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("lines of codes over counted rows have room for the last block of every expert",
          "[core][lower][fp8]") {
  for (const int ep : {1, 2}) {
    const Scenario s = dropless(ep);
    const std::int64_t block = s.training.fp8_block_size;
    const Program program = test::lowered(s);
    int transposed = 0;
    const int made = for_kernels(program, KernelKind::RaggedQuantize, [&](const Kernel& k) {
      const auto& [parts, places, rows, cols, across, along, blocks, padded] = k.dims;
      // The rows of every rank for each of its experts: as many as the layer has experts.
      CHECK(parts == s.model.experts);
      CHECK(along == block);
      CHECK(padded == (places + s.model.experts * (block - 1)) / block * block);
      transposed += across != 0 ? 1 : 0;
    });
    // x, and again by columns, and dy likewise, of two layers.
    CHECK(made == 2 * transposed);
    CHECK(transposed > 0);
    CHECK(for_kernels(program, KernelKind::RaggedScaledGemm, [](const Kernel&) {}) == made / 2);
    // Half of each last block is expected to be padding.
    for_kernels(program, KernelKind::RaggedScaledGemmWeight,
                [&](const Kernel& k) { CHECK(k.dims[3] <= k.dims[2]); });
  }
}

TEST_CASE("with known scales rows of experts have one, and blocks of 32 of their columns",
          "[core][lower][fp8]") {
  Scenario s = dropless(2);
  s.training.fp8_recipe = Fp8Scaling::Delayed;
  s.training.fp8_block_size = 0;
  const Program program = test::lowered(s);
  int measured = 0;
  for_kernels(program, KernelKind::RaggedQuantize, [&](const Kernel& k) {
    const auto& [parts, places, rows, cols, transposed, along, blocks, padded] = k.dims;
    CHECK(along == (transposed != 0 ? 32 : cols));
    if (transposed != 0) CHECK(padded == (places + s.model.experts * 31) / 32 * 32);
    CHECK(k.in[2].present());
    const bool measures = k.out.size() > 2 && k.out[2].present();
    CHECK(measures == (transposed != 0));  // once of each factor
    measured += measures ? 1 : 0;
  });
  // x and dy of two linear layers.
  CHECK(measured == 4);
}

TEST_CASE("padding for 8 bits sends no row more", "[core][lower][fp8]") {
  const auto sent = [](const Program& program) {
    std::vector<ExpectedRows> rows;
    for (const Role& role : program.roles) {
      for (const Op& op : role.ops) {
        if (op.kind == OpKind::AllToAllRows) rows.push_back(role.rows_of(op));
      }
    }
    return rows;
  };
  Scenario s = dropless(2);
  const auto narrow = sent(test::lowered(s));
  s.training.fp8 = Fp8Format::None;
  s.training.fp8_block_size = 0;
  CHECK_FALSE(narrow.empty());
  CHECK(narrow == sent(test::lowered(s)));
}
