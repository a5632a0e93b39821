// Tests what Muon adds to a program: flops, memory and traffic to the formulas, and what verify
// says of a matrix that is not whole.
#include "core/lower/update/muon.hpp"

#include <algorithm>
#include <map>

#include "core/ir/verify/verify.hpp"
#include "core/lower/update/newton_schulz.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::Layout;
using test::lowered;

namespace {

Scenario muon(Architecture architecture, const Layout& layout = {}) {
  Scenario s = test::tiny_scenario(architecture, layout);
  s.optimizer.name = OptimizerKind::Muon;
  return s;
}

bool has_name(const Program& program, const Op& op, const std::string& prefix) {
  return op.kind == OpKind::Call && program.function(op.function()).name.text().starts_with(prefix);
}

/// The matrices of a block of the tiny model of the Llama kind, 24 wide with 40 features of its
/// network: rows and columns, by the dimension of which ranks would divide them.
struct Shape {
  double rows, cols;
  bool by_columns = false;
};
const std::vector<Shape> kLlamaBlock = {{24, 24}, {12, 24}, {12, 24},      {24, 24, true},
                                        {40, 24}, {40, 24}, {24, 40, true}};
constexpr double kBlocks = 4;

double elements_of_block() {
  double sum = 0;
  for (const Shape& shape : kLlamaBlock) sum += shape.rows * shape.cols;
  return sum;
}

/// 4 n^2 N + 2 n^3 in products, and what is done to single elements beside them.
double flops_of(double rows, double cols, int steps) {
  const double n = std::min(rows, cols), longer = std::max(rows, cols);
  return steps * (4 * n * n * longer + 2 * n * n * n + 2 * n * n + n * longer) + 4 * n * longer;
}

std::int32_t data_parallel_group(const Program& program) {
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    if (program.groups[g].name == "dp") return static_cast<std::int32_t>(g);
  }
  return -1;
}

/// Bytes of all gathers of directions, unsharded, in one step; of those over `axis` alone.
double gathered(const Program& program, const std::string& axis) {
  const Role& role = program.roles[0];
  double bytes = 0;
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::AllGather || op.phase != Phase::O) continue;
    if (role.buffer(role.args_of(op)[1]).kind != BufferKind::Workspace) continue;
    const Group& group = program.group(op.group());
    const bool wanted = std::any_of(group.dims.begin(), group.dims.end(),
                                    [&](int dim) { return program.mesh.dims[dim].name == axis; });
    if (wanted) bytes += static_cast<double>(payload_bytes(program, role, op).v);
  }
  return bytes;
}

}  // namespace

TEST_CASE("Newton-Schulz iterations take 4 n^2 N + 2 n^3 flops each, whatever divides the matrix",
          "[core][lower]") {
  for (const int steps : {1, 5}) {
    for (const int parts : {1, 2}) {
      for (const auto& [rows, cols] : {std::pair{8, 24}, {24, 8}, {16, 16}, {1, 24}}) {
        NewtonSchulz what;
        what.rows = rows;
        what.cols = cols;
        what.column_parts = parts;
        what.steps = steps;
        CHECK(work(newton_schulz(what)).flops.v == flops_of(rows, cols, steps));
      }
    }
  }
}

TEST_CASE("Muon makes every matrix of the blocks orthogonal once: queries, keys, values, gate, up",
          "[core][lower]") {
  for (const int tp : {1, 2}) {
    Scenario s = muon(Architecture::Llama);
    s.strategy.tensor_parallel_degree = tp;
    const Program program = lowered(s);
    double flops = 0, expected = 0;
    int calls = 0;
    for (const Op& op : program.roles[0].ops) {
      if (!has_name(program, op, "newton_schulz.")) continue;
      ++calls;
      flops += work(program.function(op.function())).flops.v;
    }
    for (const Shape& m : kLlamaBlock) expected += kBlocks * flops_of(m.rows, m.cols, 5);
    CHECK(calls == static_cast<int>(kBlocks) * 7);
    CHECK(flops == expected);
  }
}

TEST_CASE("Muon keeps one state of a matrix in a block, and two of all else", "[core][lower]") {
  for (int stage = 0; stage <= 3; ++stage) {
    constexpr int kRanks = 4;  // which divide all units
    Scenario s = muon(Architecture::Llama, {1, kRanks});
    s.strategy.zero_stage = stage;
    const Program program = lowered(s);
    double states = 0, others = 0;
    for (const Buffer& buffer : program.roles[0].buffers) {
      if (buffer.kind == BufferKind::Optimizer) states += static_cast<double>(buffer.bytes.v);
    }
    for (const Unit& unit : program.roles[0].units) {
      REQUIRE(unit.elements % kRanks == 0);
      if (unit.has(StateKind::Moment2)) others += static_cast<double>(unit.elements);
    }
    CHECK(others == 2 * 61 * 24 + (2 * kBlocks + 1) * 24);  // embedding, head and norms
    CHECK(states == (4 * kBlocks * elements_of_block() + 8 * others) / (stage == 0 ? 1 : kRanks));
  }
}

TEST_CASE("ranks that share states gather each direction once, in the type of the iterations",
          "[core][lower]") {
  for (const PartDType type : {PartDType::Default, PartDType::BF16}) {
    for (const int ranks : {2, 3, 5}) {
      for (int stage = 1; stage <= 3; ++stage) {
        Scenario s = muon(Architecture::Llama, {1, ranks});
        s.strategy.zero_stage = stage;
        s.optimizer.ns_dtype = type;
        const Program program = lowered(s);
        const auto block = static_cast<std::int64_t>(elements_of_block());
        const auto padded = static_cast<double>(round_up(block, ranks));
        CHECK(gathered(program, "dp_shard") ==
              kBlocks * padded * (type == PartDType::BF16 ? 2 : 4));
      }
    }
  }
}

TEST_CASE("tensor-parallel ranks gather every matrix that they divide once", "[core][lower]") {
  for (const int shards : {1, 2}) {
    Scenario s = muon(Architecture::Llama, {1, shards});
    s.strategy.tensor_parallel_degree = 2;
    const Program program = lowered(s);
    CHECK(gathered(program, "tp") == 4 * kBlocks * elements_of_block());
    // Each of them gathers the shards of its own half.
    CHECK(gathered(program, "dp_shard") == (shards == 1 ? 0 : 2 * kBlocks * elements_of_block()));
  }
}

TEST_CASE("a matrix needs room for itself, a second one and two squares of its shorter side",
          "[core][lower]") {
  const Program program = lowered(muon(Architecture::Llama));
  const Role& role = program.roles[0];
  for (const Op& op : role.ops) {
    if (!has_name(program, op, "newton_schulz.")) continue;
    const auto args = role.args_of(op);
    const auto bytes = [&](std::size_t i) { return role.buffer(args[i]).bytes.v; };
    const Kernel& product = program.function(op.function()).kernels[2];
    const std::int64_t n = product.dims[0], longer = product.dims[2];
    CHECK(bytes(0) == 4 * n * longer);
    CHECK(bytes(1) == 4 * n * longer);
    CHECK(bytes(2) == 4 * n * n);
    CHECK(bytes(3) == 4 * n * n);
    CHECK(bytes(4) == 4);
  }
}

TEST_CASE("experts are matrices one by one, and a rank has those that it holds", "[core][lower]") {
  for (const int ep : {1, 2}) {
    Scenario s = muon(Architecture::Llama, {1, 2});
    s.model.experts = 4;
    s.strategy.expert_parallel_degree = ep;
    const Program program = lowered(s);
    int calls = 0;
    for (const Op& op : program.roles[0].ops) {
      calls += has_name(program, op, "newton_schulz.") ? 1 : 0;
    }
    // Queries, keys, values, output and router; gate, up and down of every expert.
    CHECK(calls == static_cast<int>(kBlocks) * (5 + 3 * 4 / ep));
  }
}

TEST_CASE("verify refuses a matrix that is not whole, and one that is made orthogonal twice",
          "[core][lower]") {
  const auto faults = [](int tp, auto&& change) {
    Scenario s = muon(Architecture::Llama, {1, 2});
    s.strategy.tensor_parallel_degree = tp;
    Program program = lowered(s);
    for (Role& role : program.roles) change(program, role);
    std::string all;
    for (const Error& fault : verify(program)) all += fault.message + "\n";
    return all;
  };
  /// The arguments of the calls of keys' and values' iterations, and the op before, of a block.
  const auto calls = [](const Program& program, const Role& role) {
    std::vector<std::uint32_t> arguments;
    for (const Op& op : role.ops) {
      if (has_name(program, op, "newton_schulz.12x24")) arguments.push_back(op.args_begin);
    }
    return arguments;
  };
  CHECK(faults(1, [](const Program&, Role&) {}).empty());
  CHECK_THAT(faults(1,
                    [&](const Program& program, Role& role) {
                      const auto at = calls(program, role);
                      role.args[at[1]] = role.args[at[0]];
                    }),
             ContainsSubstring("makes the orthogonal direction of blocks.0 orthogonal"));
  // Without the gather, what a rank has is half of the matrix.
  CHECK_THAT(faults(2,
                    [&](const Program& program, Role& role) {
                      for (Op& op : role.ops) {
                        const bool gathers = op.kind == OpKind::AllGather && op.phase == Phase::O &&
                                             op.stream == Stream::Layer;
                        if (gathers) op.target = data_parallel_group(program);
                      }
                    }),
             ContainsSubstring("does not take"));
}
