// Recomputation by stage: which blocks run a second time, and what the others keep for it.
#include <algorithm>

#include "core/memory/device_memory.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;
using test::Layout;
using test::lowered;

namespace {

Scenario in_stages(const std::vector<int>& recomputed) {
  Scenario s = test::tiny_scenario(Architecture::Llama, Layout{1, 1, 2, 6});
  s.model.layers = 8;
  s.activation_checkpoint.mode = ActivationCheckpoint::Full;
  s.activation_checkpoint.recomputed_layers_per_stage = recomputed;
  return s;
}

/// Calls of the second forward pass.
int recomputed_calls(const Role& role) {
  return static_cast<int>(std::count_if(role.ops.begin(), role.ops.end(), [](const Op& op) {
    return op.kind == OpKind::Call && op.phase == Phase::R;
  }));
}

}  // namespace

TEST_CASE("every stage recomputes as many blocks as the list says, for every microbatch",
          "[core][lower]") {
  for (int first = 0; first <= 4; ++first) {
    for (int second = 0; second <= 4; ++second) {
      const Program program = lowered(in_stages({first, second}));
      REQUIRE(program.roles.size() == 2);
      CHECK(recomputed_calls(program.roles[RoleId{0}]) == first * 6);
      CHECK(recomputed_calls(program.roles[RoleId{1}]) == second * 6);
    }
  }
}

TEST_CASE("a list of all blocks is the whole recomputation, and one of none no recomputation",
          "[core][lower]") {
  const auto arenas = [](const Scenario& s) {
    const Program program = lowered(s);
    return std::vector{program.roles[RoleId{0}].arena, program.roles[RoleId{1}].arena};
  };
  Scenario whole = in_stages({}), none = in_stages({});
  none.activation_checkpoint.mode = ActivationCheckpoint::None;
  CHECK(arenas(in_stages({4, 4})) == arenas(whole));
  CHECK(arenas(in_stages({7, 4})) == arenas(whole));  // more than there are means all
  CHECK(arenas(in_stages({0, 0})) == arenas(none));
  CHECK(arenas(whole)[0] < arenas(none)[0]);
}

TEST_CASE("a block that is kept costs what its microbatches in flight keep of it",
          "[core][lower]") {
  // In 1F1B the first of two ranks holds two microbatches, and the last one holds one. What a block
  // keeps for a microbatch is the same on both, so the first rank's memory grows by twice as much.
  const auto most = [](const std::vector<int>& recomputed, int rank) {
    return most_alive(lowered(in_stages(recomputed)).roles[RoleId{rank}]).v;
  };
  const std::int64_t on_first = most({2, 4}, 0) - most({3, 4}, 0);
  const std::int64_t on_last = most({4, 2}, 1) - most({4, 3}, 1);
  CHECK(on_last > 0);
  CHECK(on_first == 2 * on_last);
}
