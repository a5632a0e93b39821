// Scales that follow from earlier steps: what is reduced for them, and what they keep.
#include <numeric>

#include "core/ir/verify/verify.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

namespace {

Scenario delayed(const test::Layout& layout, int tp = 1) {
  Scenario s = test::tiny_scenario(Architecture::Gpt2, layout);
  s.strategy.tensor_parallel_degree = tp;
  s.training.fp8 = Fp8Format::Hybrid;
  s.training.fp8_recipe = Fp8Scaling::Delayed;
  s.training.fp8_amax_history_len = 5;
  return s;
}

/// The bytes of a role's all-reduces that take the largest.
std::vector<std::int64_t> reduced(const Role& role) {
  std::vector<std::int64_t> bytes;
  for (const Op& op : role.ops) {
    if (op.largest) bytes.push_back(role.buffer(role.args_of(op)[0]).bytes.v);
  }
  return bytes;
}

}  // namespace

TEST_CASE("the largest magnitudes of three factors of four layers a block are reduced once a step",
          "[core][lower][fp8]") {
  // 4 blocks × 4 linear layers × x, w, dy × 4 bytes, however many microbatches and shards there
  // are.
  constexpr std::int64_t kBytes = 4 * 4 * 3 * 4;
  for (const test::Layout& layout : {test::Layout{.replicate = 2}, test::Layout{.shard = 2},
                                     test::Layout{.shard = 2, .accumulation = 3},
                                     test::Layout{.replicate = 2, .shard = 2, .accumulation = 2}}) {
    const Program program = test::lowered(delayed(layout));
    for (const Role& role : program.roles) CHECK(reduced(role) == std::vector{kBytes});
  }
  const Program one = test::lowered(delayed({}));
  CHECK(reduced(one.roles[0]).empty());
  const Program tensor = test::lowered(delayed({}, 2));  // ranks of tp divide every tensor
  CHECK(reduced(tensor.roles[0]) == std::vector{kBytes});
  const Program stages = test::lowered(delayed({.replicate = 2, .pp = 2, .microbatches = 4}));
  std::int64_t all = 0;  // each stage those of its own blocks
  for (const RoleId id : stages.roles.ids()) {
    const std::vector<std::int64_t> of_stage = reduced(stages.roles[id]);
    CHECK(of_stage.size() == 1);
    all += std::accumulate(of_stage.begin(), of_stage.end(), std::int64_t{0});
  }
  CHECK(all == kBytes);
}

TEST_CASE(
    "two copies of the model over stages take the largest of both, and a sum of both is a fault",
    "[core][lower][fp8]") {
  Scenario s = delayed({.pp = 2, .microbatches = 4});
  s.strategy.pipeline_parallel_schedule = PipelineSchedule::DualPipe;
  Program program = test::lowered(s);
  int largest = 0, sums = 0;
  for (Role& role : program.roles) {
    for (Op& op : role.ops) {
      if (op.kind == OpKind::AllReduce && op.stream == Stream::Reduce) {
        ++(op.largest ? largest : sums);
        op.largest = false;
      }
    }
  }
  CHECK(largest == 2 * 4);  // of four blocks on both ranks
  CHECK(sums > largest);    // gradients
  std::string all;
  for (const Error& fault : verify(program)) all += fault.message + "\n";
  CHECK_THAT(all, ContainsSubstring("adds up what stages have of the gradient of"));
}

TEST_CASE("a factor keeps its scale and its history on every rank", "[core][lower][fp8]") {
  const Program program = test::lowered(delayed({.shard = 2}, 2));
  int units = 0;
  for (const Unit& unit : program.roles[0].units) {
    if (unit.history == 0) continue;
    ++units;
    const Role& role = program.roles[0];
    CHECK(unit.history == 5);
    CHECK(unit.elements == 4 * 3);
    CHECK_FALSE(unit.shard_group.valid());
    CHECK(role.buffer(unit.param()).bytes == Bytes{4 * 3 * 4});
    CHECK(role.buffer(unit.states[StateKind::Moment1]).bytes == Bytes{4 * 3 * 5 * 4});
    CHECK_FALSE(unit.has(StateKind::Moment2));
  }
  CHECK(units == 4);
}

TEST_CASE("scales are summed as they are where gradients are products of low rank",
          "[core][lower][fp8]") {
  Scenario s = delayed({.replicate = 2});
  s.strategy.power_sgd.matrix_approximation_rank = 1;
  s.strategy.power_sgd.min_compression_rate = 0.5;
  const Program program = test::lowered(s);
  int compressed = 0;
  for (const Unit& unit : program.roles[0].units) {
    for (const UnitParameter& part : unit.parameters) {
      const bool scale = program.parameters[part.parameter].name.ends_with(kFactorScales);
      CHECK_FALSE((scale && part.low_rank > 0));
      compressed += part.low_rank > 0 ? 1 : 0;
    }
  }
  CHECK(compressed > 0);
}
