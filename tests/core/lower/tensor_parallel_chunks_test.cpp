// Counts in lowered programs what asynchronous tensor parallelism sends, and what waits for it.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/ir/parts.hpp"
#include "core/ir/verify/verify.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::lowered;
using test::tiny_scenario;

namespace {

Scenario in_chunks(Architecture architecture, int tp, int chunks, const test::Layout& layout = {}) {
  Scenario s = tiny_scenario(architecture, layout, 3);
  s.model.heads = s.model.kv_heads = 12;
  s.model.head_dim = 2;
  s.model.ffn_hidden = 48;
  s.strategy.tensor_parallel_degree = tp;
  s.strategy.enable_sequence_parallel = true;
  s.strategy.tensor_parallel_chunks = chunks;
  return s;
}

/// Collectives over "tp" of a layer's pass in list order, gathers or scatters of rows.
std::vector<OpId> collectives(const Program& program, OpKind kind, Phase phase, int layer) {
  std::vector<OpId> found;
  const Role& role = program.roles[0];
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.op(id);
    if (op.kind == kind && op.stream == Stream::Layer && op.phase == phase && op.layer == layer) {
      found.push_back(id);
    }
  }
  return found;
}

bool waits_for(const Role& role, OpId op, OpId earlier) {
  const auto after = role.after_of(role.op(op));
  return std::find(after.begin(), after.end(), earlier) != after.end();
}

/// The first op on the compute stream that waits for `earlier`.
OpId first_waiting(const Role& role, OpId earlier) {
  for (const OpId id : role.ops.ids()) {
    if (role.op(id).stream == Stream::Compute && waits_for(role, id, earlier)) return id;
  }
  return {};
}

bool mentions(const std::vector<Error>& errors, const std::string& what) {
  return std::any_of(errors.begin(), errors.end(), [&](const Error& error) {
    return error.message.find(what) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("the name of a part says which of how many it is, and other names are of whole tensors",
          "[core][lower]") {
  CHECK(part_name("qkv.x", 1, 4) == "qkv.x.1of4");
  CHECK(part_name("qkv.x", 0, 1) == "qkv.x");
  const TensorPart part = part_of("qkv.x.11of12");
  CHECK((part.tensor == "qkv.x" && part.index == 11 && part.count == 12));
  for (const char* whole :
       {"x", "qkv.x", "x.of4", "x.4of4", "x.1of", "x.1of4b", "x.-1of4", "1of4"}) {
    INFO(whole);
    CHECK((part_of(whole).all() && part_of(whole).tensor == whole));
  }
  CHECK(share_bytes("x.1of4", "x"));
  CHECK_FALSE(share_bytes("x.1of4", "x.2of4"));
  CHECK_FALSE(share_bytes("x.1of4", "dx.1of4"));
}

TEST_CASE("rows in chunks are as many bytes in so many more collectives, and the same memory",
          "[core][lower]") {
  for (Architecture architecture : {Architecture::Gpt2, Architecture::Llama}) {
    for (const int tp : {2, 4}) {
      const Program whole = lowered(in_chunks(architecture, tp, 1));
      for (const int chunks : {2, 3}) {
        INFO(tp << " ranks, " << chunks << " chunks");
        const Scenario s = in_chunks(architecture, tp, chunks);
        const Program program = lowered(s);
        CHECK(verify(program).empty());
        const Role& role = program.roles[0];
        const std::int64_t rows = std::int64_t{s.microbatch_size()} * s.training.seq_len;
        const std::int64_t bytes = rows * s.model.hidden * 4 / chunks;
        // Forward gathers before two products and scatters behind two. Backward gathers what those
        // two scattered, and the inputs of the others again.
        for (const auto& [kind, phase, count] : {std::tuple{OpKind::AllGather, Phase::F, 2},
                                                 std::tuple{OpKind::ReduceScatter, Phase::F, 2},
                                                 std::tuple{OpKind::AllGather, Phase::B, 4},
                                                 std::tuple{OpKind::ReduceScatter, Phase::B, 2}}) {
          const auto found = collectives(program, kind, phase, 1);
          CHECK(found.size() == static_cast<std::size_t>(count * chunks));
          for (const OpId id : found) CHECK(payload_bytes(program, role, role.op(id)).v == bytes);
        }
        // Parts are views of the buffers that there are without them.
        CHECK(role.arena == whole.roles[0].arena);
      }
    }
  }
}

TEST_CASE("a product of a chunk waits for the gather of that chunk alone", "[core][lower]") {
  constexpr int kChunks = 3;
  const Program program = lowered(in_chunks(Architecture::Llama, 2, kChunks));
  const Role& role = program.roles[0];
  for (const auto& [phase, first] : {std::pair{Phase::F, 0}, std::pair{Phase::F, kChunks},
                                     std::pair{Phase::B, 0}}) {  // backward: of dy
    const auto gathers = collectives(program, OpKind::AllGather, phase, 2);
    OpId before{-1};
    for (int c = 0; c < kChunks; ++c) {
      const OpId product = first_waiting(role, gathers[to_size(first + c)]);
      REQUIRE(product.valid());
      CHECK(product > before);
      for (int later = c + 1; later < kChunks; ++later) {
        CHECK_FALSE(waits_for(role, product, gathers[to_size(first + later)]));
      }
      before = product;
    }
  }
  // The next product does not wait for the scatter of the last one's chunk.
  for (const Phase phase : {Phase::F, Phase::B}) {
    const auto scatters = collectives(program, OpKind::ReduceScatter, phase, 2);
    for (int c = 0; c + 1 < kChunks; ++c) {
      const OpId product = role.after_of(role.op(scatters[to_size(c + 1)])).back();
      CHECK(role.op(product).kind == OpKind::Call);
      CHECK(product > scatters[to_size(c)]);
      CHECK_FALSE(waits_for(role, product, scatters[to_size(c)]));
    }
  }
}

TEST_CASE("of every chunk of the rows a rank holds its share", "[core][lower]") {
  Scenario s = in_chunks(Architecture::Gpt2, 2, 3);
  s.training.residual_dropout = 0.1;
  const Program program = lowered(s);
  // 3 sequences of 8 tokens are 3 chunks of 8 rows, and 4 of each are a rank's.
  const auto list = [&](TableKind kind, std::size_t rank) {
    std::vector<std::int32_t> values(to_size(program.input.table(kind)->lists[rank].size()));
    program.input.table(kind)->lists[rank].fill(values);
    return values;
  };
  CHECK(list(TableKind::Rows, 0) == std::vector<std::int32_t>{0, 8, 16});
  CHECK(list(TableKind::Rows, 1) == std::vector<std::int32_t>{4, 12, 20});
  CHECK(list(TableKind::Positions, 0) ==
        std::vector<std::int32_t>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(list(TableKind::Positions, 1) ==
        std::vector<std::int32_t>{4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7});
}

TEST_CASE("verify refuses a chunk in the place of another, and rows in other chunks than elsewhere",
          "[core][lower]") {
  const Program good = lowered(in_chunks(Architecture::Llama, 2, 2));
  const auto gathers = collectives(good, OpKind::AllGather, Phase::F, 1);
  const auto args = [&](Program& program, std::size_t which) {
    Role& role = program.roles[0];
    return role.args.begin() + role.op(gathers[which]).args_begin;
  };
  Program exchanged = good;
  std::swap(*args(exchanged, 0), *args(exchanged, 1));
  CHECK(mentions(verify(exchanged), "reads as qkv.x"));
  Program at_once = good;
  for (int i = 0; i < 2; ++i) {
    BufferId& buffer = *(args(at_once, 0) + i);
    buffer = at_once.roles[0].buffer(buffer).parent();
  }
  CHECK(mentions(verify(at_once), "they would come in another order"));
}
