// Tests hand-made units. tests/integration/views_test.cpp tests what real strategies keep.
#include "core/analysis/shards.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("a unit that is split and sharded is cut twice", "[core][analysis]") {
  // 8 × 5 elements in two parts of 20; each in three pieces of 7, the last without its padding.
  Program program;
  program.mesh.dims = {{"dp_shard", 3}, {"tp", 2}};
  program.groups = {{"dp", {0}, {}}, {"tp", {1}, {}}};
  Parameter w;
  w.shape = {8, 5};
  w.split_dim = 0;
  w.sections = {8};
  program.parameters = {w};
  Unit unit;
  unit.parameters = {{{0}, 0, {}}};
  unit.elements = 20;
  unit.shard_elements = 7;
  unit.shard_group = {0};
  unit.split_group = {1};
  unit.states[StateKind::Param] = {0};
  unit.states[StateKind::Moment1] = unit.states[StateKind::Moment2] = {1};
  Role role;
  role.buffers.resize(2);
  role.units = {unit};
  program.roles = {role};
  for (Rank rank = 0; rank < 6; ++rank) {
    program.role_of_rank.push_back({0});
    program.roles[0].ranks.push_back(rank);
  }
  const std::vector<ElementRange> pieces = {{0, 7}, {7, 14}, {14, 20}};
  for (Rank rank = 0; rank < 6; ++rank) {
    const RankShards shards = shards_of(program, rank);
    CHECK(shards.coordinates == std::vector<int>{rank / 2, rank % 2});
    REQUIRE(shards.units.size() == 1);
    const UnitShard& shard = shards.units[0];
    CHECK(shard.whole == 40);
    CHECK(shard.parts == 2);
    CHECK(shard.part == rank % 2);
    CHECK(shard.elements == 20);
    CHECK(shard.parameters == pieces[rank / 2]);
    CHECK(shard.optimizer == shard.parameters);
    CHECK(shard.gradients == ElementRange{});  // nothing updates it
  }
  program.roles[0].units[0].whole_param = true;
  CHECK(shards_of(program, 3).parameters == 20);
  CHECK(shards_of(program, 3).optimizer == 7);
}

}  // namespace
}  // namespace lockstep
