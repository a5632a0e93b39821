// Tests what Adafactor adds to a program: memory and traffic to the byte, and what verify says of
// sums that are not of all ranks.
#include "core/lower/update/adafactor.hpp"

#include <algorithm>

#include "core/ir/verify/verify.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::Layout;
using test::lowered;

namespace {

Scenario adafactor(Architecture architecture, const Layout& layout = {}) {
  Scenario s = test::tiny_scenario(architecture, layout);
  s.optimizer.name = OptimizerKind::Adafactor;
  return s;
}

/// Rows and columns of the matrices of a block of the tiny model of the Llama kind, which is 24
/// wide with 12 features of keys and 40 of its network; by what ranks divide. Queries, keys and
/// values are one matrix, and so are gate and up.
struct Matrix {
  std::int64_t rows, cols;
  bool by_columns = false;
};
const std::vector<Matrix> kBlock = {{48, 24}, {24, 24, true}, {80, 24}, {24, 40, true}};
constexpr std::int64_t kBlocks = 4, kWidth = 24, kVocabulary = 61;

std::int64_t optimizer_bytes(const Program& program) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.roles[0].buffers) {
    if (buffer.kind == BufferKind::Optimizer) bytes += buffer.bytes.v;
  }
  return bytes;
}

/// Bytes of the all-reduces of sums over groups along `axis`, in one step.
std::int64_t summed(const Program& program, const std::string& axis) {
  const Role& role = program.roles[0];
  std::int64_t bytes = 0;
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::AllReduce || op.phase != Phase::O || op.layer < 0) continue;
    const std::string& name = program.names[role.buffer(role.args_of(op)[0]).name];
    if (name != "factor_sums" && name != "update_squares") continue;
    const Group& group = program.group(op.group());
    const bool wanted = std::any_of(group.dims.begin(), group.dims.end(),
                                    [&](int dim) { return program.mesh.dims[dim].name == axis; });
    if (wanted) bytes += payload_bytes(program, role, op).v;
  }
  return bytes;
}

}  // namespace

TEST_CASE("Adafactor keeps a number for every row and column, whatever shares the states",
          "[core][lower]") {
  // A vector of n is a matrix of one column: n + 1 numbers.
  std::int64_t numbers = 2 * (kVocabulary + kWidth) + (2 * kBlocks + 1) * (kWidth + 1);
  for (const Matrix& m : kBlock) numbers += kBlocks * (m.rows + m.cols);
  for (const int ranks : {1, 2, 3, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      Scenario s = adafactor(Architecture::Llama, {1, ranks});
      s.strategy.zero_stage = stage;
      CHECK(optimizer_bytes(lowered(s)) == 4 * numbers);
    }
  }
  // Ranks that divide a matrix share its rows or its columns.
  Scenario s = adafactor(Architecture::Llama);
  s.strategy.tensor_parallel_degree = 2;
  std::int64_t divided = 2 * (ceil_div(kVocabulary, 2) + kWidth) + (2 * kBlocks + 1) * (kWidth + 1);
  for (const Matrix& m : kBlock) {
    divided += kBlocks * (m.by_columns ? m.rows + m.cols / 2 : m.rows / 2 + m.cols);
  }
  CHECK(optimizer_bytes(lowered(s)) == 4 * divided);
}

TEST_CASE("ranks that divide each expert keep its whole rows or its whole columns, and no other's",
          "[core][lower]") {
  Scenario s = adafactor(Architecture::Llama, {1, 2});
  s.model.experts = 4;
  s.model.capacity_factor = 0;
  s.strategy.tensor_parallel_degree = 2;
  s.strategy.enable_sequence_parallel = true;
  s.strategy.expert_tensor_parallel_degree = 2;
  s.strategy.expert_parallel_degree = 2;
  const std::int64_t f = s.model.ffn_hidden, c = s.model.hidden;
  const Program program = lowered(s);
  int experts = 0;
  for (const Unit& unit : program.roles[0].units) {
    if (!unit.name.ends_with("experts.factors")) continue;
    ++experts;
    // Of each of two experts, gate and up [2 f, c] by rows, then the way back [c, f] by columns.
    CHECK(unit.elements == 2 * ((f + c) + (c + f / 2)));
  }
  CHECK(experts == kBlocks);
}

TEST_CASE("with a first moment Adafactor keeps a number for every parameter besides",
          "[core][lower]") {
  for (const int ranks : {1, 2}) {
    Scenario s = adafactor(Architecture::Llama, {1, ranks});
    const std::int64_t without = optimizer_bytes(lowered(s));
    s.optimizer.first_moment_decay = 0.9;
    const Program program = lowered(s);
    std::int64_t elements = 0;
    for (const Unit& unit : program.roles[0].units) {
      if (unit.factored) elements += unit.shard_elements;
    }
    CHECK(optimizer_bytes(program) == without + 4 * elements);
  }
}

TEST_CASE("ranks that share states add up rows, columns and two scales of every matrix",
          "[core][lower]") {
  std::int64_t numbers = 2 * (kVocabulary + kWidth + 2) + (2 * kBlocks + 1) * (kWidth + 3);
  for (const Matrix& m : kBlock) numbers += kBlocks * (m.rows + m.cols + 2);
  for (const int ranks : {2, 3, 5}) {
    for (int stage = 1; stage <= 3; ++stage) {
      Scenario s = adafactor(Architecture::Llama, {1, ranks});
      s.strategy.zero_stage = stage;
      CHECK(summed(lowered(s), "dp_shard") == 4 * numbers);
    }
  }
  CHECK(summed(lowered(adafactor(Architecture::Llama, {2, 1})), "dp_replicate") == 0);
}

TEST_CASE("tensor-parallel ranks add up the side of a matrix that they share, and two scales",
          "[core][lower]") {
  Scenario s = adafactor(Architecture::Llama);
  s.strategy.tensor_parallel_degree = 2;
  std::int64_t numbers = 2 * (kWidth + 2);  // embedding and head, whose rows are divided
  for (const Matrix& m : kBlock) numbers += kBlocks * ((m.by_columns ? m.rows : m.cols) + 2);
  CHECK(summed(lowered(s), "tp") == 4 * numbers);
}

TEST_CASE("verify refuses sums of Adafactor that are not of all ranks, or of another unit",
          "[core][lower]") {
  const auto faults = [](int tp, auto&& change) {
    Scenario s = adafactor(Architecture::Llama, {1, 2});
    s.strategy.tensor_parallel_degree = tp;
    Program program = lowered(s);
    for (Role& role : program.roles) change(program, role);
    std::string all;
    for (const Error& fault : verify(program)) all += fault.message + "\n";
    return all;
  };
  /// The last all-reduce of what has this name goes over another buffer that nothing else reads.
  const auto leave_out = [](Program& program, Role& role, const std::string& name,
                            const std::string& axis) {
    for (std::size_t i = role.ops.size(); i-- > 0;) {
      Op& op = role.ops[i];
      if (op.kind != OpKind::AllReduce || op.phase != Phase::O) continue;
      const std::int32_t of = role.buffer(role.args_of(op)[0]).name;
      if (of < 0 || program.names[of] != name) continue;
      const Group& group = program.group(op.group());
      if (program.mesh.dims[group.dims[0]].name != axis) continue;
      op.target = 0;
      for (const GroupId id : program.groups.ids()) {
        const Group& other = program.group(id);
        if (program.mesh.dims[other.dims[0]].name != axis) op.target = id.v;
      }
      return;
    }
  };
  const auto calls = [](const Program& program, const Role& role, const std::string& prefix) {
    std::vector<std::uint32_t> arguments;
    for (const Op& op : role.ops) {
      if (op.kind == OpKind::Call &&
          program.function(op.function()).name.text().starts_with(prefix)) {
        arguments.push_back(op.args_begin);
      }
    }
    return arguments;
  };
  CHECK(faults(1, [](Program&, Role&) {}).empty());
  CHECK(faults(2, [](Program&, Role&) {}).empty());
  for (const char* name : {"factor_sums", "update_squares"}) {
    CHECK_THAT(
        faults(2, [&](Program& program, Role& role) { leave_out(program, role, name, "tp"); }),
        ContainsSubstring("does not take"));
  }
  CHECK_THAT(faults(1,
                    [&](Program& program, Role& role) {
                      const auto at = calls(program, role, "factor_moments.");
                      std::swap(role.args[at[1] + 1], role.args[at[2] + 1]);
                    }),
             ContainsSubstring("reads"));
}
