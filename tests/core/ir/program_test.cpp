#include "core/ir/program.hpp"

#include <map>

#include "core/ir/text/text.hpp"
#include "tests/catch.hpp"
#include "tests/core/ir/sample.hpp"

using namespace lockstep;

namespace {

Mesh mesh_of(std::vector<int> sizes) {
  const std::vector<std::string> names = {"pp", "dp_replicate", "dp_shard", "tp"};
  Mesh mesh;
  for (std::size_t i = 0; i < sizes.size(); ++i) mesh.dims.push_back({names[i], sizes[i]});
  return mesh;
}

}  // namespace

TEST_CASE("ranks are a grid in which the last dimension varies fastest", "[core][ir]") {
  const Mesh mesh = mesh_of({2, 3, 4, 5});
  CHECK(mesh.world_size() == 120);
  CHECK(mesh.index_of("dp_shard") == 2);
  CHECK(mesh.index_of("ep") == -1);
  CHECK(mesh.size_of("tp") == 5);
  CHECK(mesh.size_of("ep") == 1);
  for (Rank rank = 0; rank < mesh.world_size(); ++rank) {
    const int pp = mesh.coordinate(rank, 0), r = mesh.coordinate(rank, 1);
    const int s = mesh.coordinate(rank, 2), tp = mesh.coordinate(rank, 3);
    CHECK(((pp * 3 + r) * 4 + s) * 5 + tp == rank);
    CHECK(mesh.with_coordinate(rank, 2, 3) == ((pp * 3 + r) * 4 + 3) * 5 + tp);
    CHECK(mesh.with_coordinate(rank, 2, s) == rank);
  }
  CHECK(Mesh{}.world_size() == 1);
}

TEST_CASE("groups partition the ranks and positions follow rank order", "[core][ir]") {
  const Mesh mesh = mesh_of({2, 3, 4, 5});
  const std::vector<Group> groups = {{"tp", {3}, {}},    {"dp", {1, 2}, {}},
                                     {"dp", {2, 1}, {}}, {"all", {0, 1, 2, 3}, {}},
                                     {"none", {}, {}},   {"pp", {0}, {}}};
  for (const Group& group : groups) {
    std::map<std::vector<Rank>, int> seen;
    for (Rank rank = 0; rank < mesh.world_size(); ++rank) {
      const std::vector<Rank> own = members(mesh, group, rank);
      CHECK(static_cast<int>(own.size()) == group_size(mesh, group));
      CHECK(std::is_sorted(own.begin(), own.end()));
      const int at = position(mesh, group, rank);
      REQUIRE(at >= 0);
      CHECK(own[at] == rank);
      CHECK(first_member(mesh, group, rank) == own.front());
      ++seen[own];
    }
    // Every member lists the same group: the lists are a partition.
    CHECK(static_cast<int>(seen.size()) * group_size(mesh, group) == mesh.world_size());
    for (const auto& [list, count] : seen) CHECK(count == static_cast<int>(list.size()));
  }
}

TEST_CASE("a group may keep some coordinates only", "[core][ir]") {
  const Mesh mesh = mesh_of({4, 1, 2});
  const Group ends = {"ends", {0}, {0, 3}};
  CHECK(group_size(mesh, ends) == 2);
  CHECK(members(mesh, ends, 1) == std::vector<Rank>{1, 7});
  CHECK(position(mesh, ends, 1) == 0);
  CHECK(position(mesh, ends, 7) == 1);
  CHECK(position(mesh, ends, 3) == -1);
  const Group later = {"later", {0, 2}, {1, 3}};
  CHECK(members(mesh, later, 6) == std::vector<Rank>{2, 3, 6, 7});
  CHECK(position(mesh, later, 6) == 2);
  CHECK(first_member(mesh, later, 7) == 2);
}

TEST_CASE("symmetric dimensions are folded to one representative", "[core][ir]") {
  Program program;
  program.mesh = mesh_of({2, 3, 4});
  program.roles.resize(2);
  for (Rank rank = 0; rank < 24; ++rank) {
    program.roles[rank / 12].ranks.push_back(rank);
    program.role_of_rank.push_back({rank / 12});
  }
  Folding folding = fold(program);
  CHECK(folding.representatives == std::vector<Rank>{0, 12});
  for (Rank rank = 0; rank < 24; ++rank) {
    CHECK(folding.representative_of[rank] == rank / 12 * 12);
  }
  SECTION("one rank that differs unfolds the dimensions that it breaks") {
    program.role_of_rank[5] = {1};  // dp_replicate 1, dp_shard 1
    folding = fold(program);
    CHECK(folding.representatives.size() == 24);
  }
  SECTION("messages and picked coordinates tell ranks of one role apart") {
    program.role_of_rank.assign(24, RoleId{0});
    CHECK(fold(program).representatives.size() == 1);
    program.groups.push_back({"ends", {0}, {0}});
    CHECK(fold(program).representatives.size() == 2);
    program.groups.clear();
    Op send;
    send.kind = OpKind::Send;
    send.target = 1;
    program.roles[0].ops.push_back(send);
    CHECK(fold(program).representatives.size() == 2);
  }
}

TEST_CASE("views resolve to their root and to an absolute offset", "[core][ir]") {
  Role role;
  role.buffers.resize(3);
  role.buffers[0].offset = 100;
  role.buffers[1].set_view({0});
  role.buffers[1].offset = 20;
  role.buffers[2].set_view({1});
  role.buffers[2].offset = 3;
  CHECK(role.root({2}) == BufferId{0});
  CHECK(role.root({0}) == BufferId{0});
  CHECK(role.arena_offset({2}) == 123);
}

TEST_CASE("payloads are the unsharded bytes", "[core][ir]") {
  const Program program = sample::parse(sample::Sample{}.text());
  const Role& role = program.roles[0];
  CHECK(payload_bytes(program, role, role.ops[0]) == Bytes{16});  // host copy
  CHECK(payload_bytes(program, role, role.ops[1]) == Bytes{16});  // all_gather of 8
  CHECK(payload_bytes(program, role, role.ops[2]) == Bytes{0});   // call
  CHECK(payload_bytes(program, role, role.ops[3]) == Bytes{16});  // send
  CHECK(payload_bytes(program, role, role.ops[6]) == Bytes{16});  // reduce_scatter to 8
}

TEST_CASE("ops describe themselves in few words", "[core][ir]") {
  const Program program = sample::parse(sample::Sample{}.text());
  const Role& role = program.roles[0];
  CHECK(describe(program, role, {0}) == "host_to_device tokens mb0");
  CHECK(describe(program, role, {1}) == "all_gather dp");
  CHECK(describe(program, role, {2}) == "fwd s0 mb0");
  CHECK(describe(program, role, {3}) == "send F s0 mb0 -> pp1");
  CHECK(describe(program, role, {4}) == "recv B s0 mb0 <- pp1");
}

TEST_CASE("accesses follow the formals and the kind of transfer", "[core][ir]") {
  const Program program = sample::parse(sample::Sample{}.text());
  const Role& role = program.roles[0];
  CHECK(access(program, role.ops[7], 0) == Access::Read);
  CHECK(access(program, role.ops[7], 1) == Access::ReadWrite);
  CHECK(access(program, role.ops[1], 0) == Access::Read);
  CHECK(access(program, role.ops[1], 1) == Access::Write);
  CHECK(access(program, role.ops[3], 0) == Access::Read);
  CHECK(access(program, role.ops[4], 0) == Access::Write);
}

TEST_CASE("the hash depends on the program alone and on all of it", "[core][ir]") {
  const Program program = sample::parse(sample::Sample{}.text());
  const std::string hash = program_hash(program);
  CHECK(hash.size() == 16);
  CHECK(program_hash(sample::parse(sample::Sample{}.text())) == hash);
  Program other = program;
  other.roles[3].ops[2].microbatch = 1;
  CHECK(program_hash(other) != hash);
}

TEST_CASE("roles compare their slices by content", "[core][ir]") {
  const Program program = sample::parse(sample::Sample{}.text());
  Program moved = program;
  Role& role = moved.roles[0];
  role.args.insert(role.args.begin(), BufferId{5});
  for (Op& op : role.ops) ++op.args_begin;
  CHECK(moved == program);
  ++role.args[1].v;
  CHECK_FALSE(moved == program);
}
