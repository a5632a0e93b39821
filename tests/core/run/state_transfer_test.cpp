#include "core/run/state_transfer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>

#include "core/base/bfloat16.hpp"
#include "core/run/initial_values.hpp"
#include "core/run/snapshot.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/fake_device.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep {
namespace {

/// A program with parameters a [3x5], b [4] and c [2] in one unit of 21 elements, divided into
/// `ranks` shards, and a tied copy of c that is not sharded. With `whole_param` only the moments
/// are sharded.
Program sharded_program(int ranks, DType dtype, bool whole_param = false) {
  Program program = testing::program_of("dp_shard", ranks);
  program.parameters = {{"a", {3, 5}, InitKind::Normal, 0.5},
                        {"b", {4}, InitKind::Ones, 0},
                        {"c", {2}, InitKind::Normal, 2.0}};
  testing::RoleBuilder role;
  Unit unit;
  unit.name = "u";
  unit.parameters = {{{0}, 0, {}}, {{1}, 15, {}}, {{2}, 19, {}}};
  unit.elements = 21;
  unit.shard_elements = ceil_div(21, ranks);
  if (ranks > 1) unit.shard_group = {0};
  unit.whole_param = whole_param;
  unit.states[StateKind::Param] =
      role.buffer(BufferKind::Param, dtype, unit.shard_elements * (whole_param ? ranks : 1), true);
  unit.states[StateKind::Moment1] =
      role.buffer(BufferKind::Optimizer, dtype, unit.shard_elements, true);
  unit.states[StateKind::Moment2] =
      role.buffer(BufferKind::Optimizer, dtype, unit.shard_elements, true);
  role.unit(unit);
  Unit tied;
  tied.name = "tied";
  tied.parameters = {{{2}, 0, {}}};
  tied.elements = tied.shard_elements = 2;
  tied.states[StateKind::Param] = role.buffer(BufferKind::Param, dtype, 2, true);
  tied.tied_copy = true;
  role.unit(tied);
  program.roles.push_back(role.finish(testing::all_ranks(program)));
  return program;
}

struct Machine {
  explicit Machine(const Program& program) {
    for (Rank r = 0; r < program.mesh.world_size(); ++r) {
      ranks.emplace_back();
      ranks.back().arena.assign(to_size(program.role_of(r).arena.v), std::byte{0x55});
      devices.emplace_back(ranks.back());
      ports.push_back({r, &devices.back(), nullptr});
    }
  }
  std::deque<testing::FakeRank> ranks;
  std::deque<testing::FakeDevice> devices;
  std::vector<RankPort> ports;
};

Result<void> load(const Program& program, Rank rank, Device& device, std::uint64_t seed,
                  const TrainingState& state) {
  const HeldState held(state);
  return load_state(program, rank, {device}, seed, &held);
}

TrainingState initial_state(const Program& program, int step) {
  Machine machine(program);
  for (const RankPort& port : machine.ports) {
    REQUIRE(load_state(program, port.rank, {*port.device}, 7, nullptr).ok());
  }
  SoleProcess process;
  auto state = gather_state(program, machine.ports, process, step);
  REQUIRE(state.ok());
  return *state;
}

Error load_error(const Program& program, const TrainingState& state) {
  Machine machine(program);
  const auto loaded = load(program, 0, {machine.devices[0]}, 7, state);
  REQUIRE_FALSE(loaded.ok());
  return loaded.error();
}

}  // namespace

TEST_CASE("what is saved of a unit are its states, each by the name of its kind", "[core][run]") {
  Program program = sharded_program(1, DType::F64);
  Role& role = program.roles.front();
  Unit& unit = role.units[0];
  std::vector<std::string> names = {""};  // the parameters, once: as the optimizer updates them
  for (const StateRow& row : kStates) {
    Buffer buffer = role.buffer(unit.param());
    unit.states[row.kind] = role.buffers.next();
    role.buffers.push_back(buffer);
    const std::string holder = row.holder == Holder::Rank ? "0" : "";
    if (!row.is_parameters()) names.push_back(std::string(row.name) + holder + ".");
  }
  unit.parameters[0].low_rank = 1;
  std::vector<std::string> saved;
  for (const SavedBuffer& buffer : saved_buffers(program)) saved.push_back(buffer.prefix);
  CHECK(saved == names);
  CHECK(saved_buffers(program).front().buffer == unit.states[StateKind::Master]);
}

TEST_CASE("initial parameters are the same in every layout", "[core][run]") {
  const TrainingState whole = initial_state(sharded_program(1, DType::F64), 3);
  CHECK(whole.step == 3);
  REQUIRE(whole.tensors.size() == 9);
  CHECK(whole.tensors.at("a").shape == std::vector<std::int64_t>{3, 5});
  const InitialValues a({"a", {3, 5}, InitKind::Normal, 0.5}, 7);
  for (int i = 0; i < 15; ++i) {
    double value = 0;
    std::memcpy(&value, whole.tensors.at("a").data.data() + 8 * i, 8);
    CHECK(value == a[i]);
  }
  CHECK(whole.tensors.at("adam_v.b").data == std::vector<std::byte>(32, std::byte{0}));
  for (const int ranks : {2, 3, 5, 21, 23}) {
    CHECK(initial_state(sharded_program(ranks, DType::F64), 3) == whole);
    CHECK(initial_state(sharded_program(ranks, DType::F64, true), 3) == whole);
  }
}

TEST_CASE("a split parameter is held in sections, and whole again in the state", "[core][run]") {
  // qkv [8x3] by rows in sections of 4, 2 and 2, wo [2x4] by columns, norm [3] whole, and a table
  // [5x2] whose rows do not divide by 2 or 4: the last rank has padding.
  const auto program_of = [](int tp, int shards) {
    Program program;
    program.mesh.dims = {{"dp_shard", shards}, {"tp", tp}};
    program.groups = {{"dp_shard", {0}, {}}, {"tp", {1}, {}}};
    program.role_of_rank.assign(to_size(tp * shards), RoleId{0});
    program.parameters = {{"qkv", {8, 3}, InitKind::Normal, 0.5, 0, {4, 2, 2}},
                          {"wo", {2, 4}, InitKind::Normal, 0.5, 1, {4}},
                          {"norm", {3}, InitKind::Normal, 0.5},
                          {"table", {5, 2}, InitKind::Normal, 0.5, 0, {5}}};
    testing::RoleBuilder role;
    Unit unit;
    unit.name = "u";
    if (tp > 1) unit.split_group = {1};
    if (shards > 1) unit.shard_group = {0};
    for (std::int32_t p = 0; p < 4; ++p) {
      unit.parameters.push_back({{p}, unit.elements, {}});
      unit.elements += held_elements(program, unit, unit.parameters.back());
    }
    unit.shard_elements = ceil_div(unit.elements, shards);
    unit.states[StateKind::Param] =
        role.buffer(BufferKind::Param, DType::F64, unit.shard_elements, true);
    role.unit(unit);
    program.roles.push_back(role.finish(testing::all_ranks(program)));
    return program;
  };
  const TrainingState whole = initial_state(program_of(1, 1), 0);
  for (const int tp : {1, 2, 4}) {
    for (const int shards : {1, 2, 3, 5}) {
      CHECK(initial_state(program_of(tp, shards), 0) == whole);
    }
  }
  // Rank 1 of 2: rows 2, 3 of q, then row 1 of k and of v; columns 2, 3 of wo; norm; rows 3, 4.
  const Program split = program_of(2, 1);
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;  // first element, count
  for (const ShardPiece& piece :
       shard_pieces(split, 1, split.roles[0].units[0], StateKind::Param)) {
    runs.emplace_back(piece.begin, piece.count);
  }
  CHECK(runs == std::vector<std::pair<std::int64_t, std::int64_t>>{
                    {6, 6}, {15, 3}, {21, 3}, {2, 2}, {6, 2}, {0, 3}, {6, 4}});
  Machine machine(split);
  REQUIRE(load_state(split, 1, {*machine.ports[1].device}, 7, nullptr).ok());
  double padding = 1;
  std::memcpy(&padding, machine.ranks[1].arena.data() + 8 * (split.roles[0].units[0].elements - 1),
              8);
  CHECK(padding == 0.0);  // row 5 of the table does not exist
}

TEST_CASE("sections of one parameter may lie in two units, which other ranks divide",
          "[core][run]") {
  // Queries [4x3] over four ranks; keys and values [2x3] each over two, each part on two ranks.
  const auto program_of = [](bool divided) {
    Program program;
    program.mesh.dims = {{"tp", 2}, {"kv_replicate", divided ? 2 : 1}};
    if (!divided) program.mesh.dims[0].size = 1;
    program.groups = {{"tp", {0, 1}, {}}, {"kv", {0}, {}}};
    program.role_of_rank.assign(divided ? 4 : 1, RoleId{0});
    program.parameters = {{"qkv", {8, 3}, InitKind::Normal, 0.5, 0, {4, 2, 2}}};
    testing::RoleBuilder role;
    const auto add = [&](const char* name, GroupId split, SectionRange sections) {
      Unit unit;
      unit.name = name;
      if (divided) unit.split_group = split;
      unit.parameters.push_back({{0}, 0, sections});
      unit.elements = unit.shard_elements = held_elements(program, unit, unit.parameters[0]);
      unit.states[StateKind::Param] =
          role.buffer(BufferKind::Param, DType::F64, unit.elements, true);
      role.unit(unit);
    };
    if (divided) {
      add("q", {0}, {0, 1});
      add("kv", {1}, {1, 3});
    } else {
      add("u", {}, {});
    }
    program.roles.push_back(role.finish(testing::all_ranks(program)));
    return program;
  };
  const Program split = program_of(true);
  CHECK(initial_state(split, 0) == initial_state(program_of(false), 0));
  const auto runs = [&](Rank rank, std::size_t unit) {
    std::vector<std::pair<std::int64_t, std::int64_t>> found;  // first element, count
    const Unit& u = split.roles[0].units[unit];
    for (const ShardPiece& piece : shard_pieces(split, rank, u, StateKind::Param)) {
      found.emplace_back(piece.begin, piece.count);
    }
    return found;
  };
  using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(runs(2, 0) == Runs{{6, 3}});
  CHECK(runs(2, 1) == Runs{{15, 3}, {21, 3}});  // the second rows of keys and of values
  CHECK(runs(3, 1) == runs(2, 1));
}

TEST_CASE("padding of a shard is zero and tied copies get the parameter's values", "[core][run]") {
  const Program program = sharded_program(5, DType::F32);  // 5 shards of 5: four elements padded
  Machine machine(program);
  for (const RankPort& port : machine.ports) {
    REQUIRE(load_state(program, port.rank, {*port.device}, 7, nullptr).ok());
  }
  const auto element = [&](Rank rank, BufferId buffer, std::int64_t i) {
    float value = 0;
    std::memcpy(
        &value,
        machine.ranks[rank].arena.data() + program.role_of(rank).arena_offset(buffer) + 4 * i, 4);
    return value;
  };
  const Unit& unit = program.roles[0].units[0];
  const Unit& tied = program.roles[0].units[1];
  for (int i = 1; i < 5; ++i) CHECK(element(4, unit.param(), i) == 0.0F);
  for (Rank rank = 0; rank < 5; ++rank) {
    CHECK(element(rank, tied.param(), 0) ==
          element(3, unit.param(), 4));  // c begins at 19 = 3·5 + 4
    CHECK(element(rank, tied.param(), 1) == element(4, unit.param(), 0));
  }
}

TEST_CASE("state saved from one layout loads into any other and comes back bit for bit",
          "[core][run]") {
  TrainingState state = initial_state(sharded_program(1, DType::F32), 0);
  unsigned char next = 1;
  for (auto& [name, tensor] : state.tensors) {
    for (std::byte& b : tensor.data) b = std::byte{next++};
  }
  state.step = 12;
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const bool whole_param : {false, true}) {
      const Program program = sharded_program(ranks, DType::F32, whole_param);
      Machine machine(program);
      for (const RankPort& port : machine.ports) {
        REQUIRE(load(program, port.rank, *port.device, 99, state).ok());
      }
      SoleProcess process;
      const auto back = gather_state(program, machine.ports, process, 12);
      REQUIRE(back.ok());
      CHECK(*back == state);
    }
  }
}

TEST_CASE("weights without moments start with zero moments", "[core][run]") {
  const Program program = sharded_program(2, DType::F32);
  const TrainingState full = initial_state(program, 0);
  TrainingState weights;
  for (const char* name : {"a", "b", "c"}) weights.tensors[name] = full.tensors.at(name);
  Machine machine(program);
  for (const RankPort& port : machine.ports) {
    REQUIRE(load(program, port.rank, *port.device, 99, weights).ok());
  }
  SoleProcess process;
  CHECK(*gather_state(program, machine.ports, process, 0) == full);
}

TEST_CASE("initial state that does not fit is refused with the tensor's name", "[core][run]") {
  const Program program = sharded_program(1, DType::F32);
  const TrainingState good = initial_state(program, 0);
  const auto message = [&](const TrainingState& state) {
    const Error error = load_error(program, state);
    CHECK(error.kind == ErrorKind::InvalidSpec);
    return error.message;
  };
  TrainingState state = good;
  state.tensors.erase("b");
  CHECK_THAT(message(state), ContainsSubstring("'b' is missing"));
  state = good;
  state.tensors.erase("adam_v.c");
  CHECK_THAT(message(state), ContainsSubstring("'adam_v.c' is missing"));
  state = good;
  state.tensors["a"].shape = {5, 3};
  CHECK_THAT(message(state), ContainsSubstring("'a' has shape [5, 3], the model needs [3, 5]"));
  state = good;
  state.tensors["a"].dtype = DType::F64;
  CHECK_THAT(message(state), ContainsSubstring("'a' is float64, the run needs float32"));
  state = good;
  state.tensors["a"].data.pop_back();
  CHECK_THAT(message(state), ContainsSubstring("'a' holds 59 bytes instead of 60"));
}

TEST_CASE("values that several threads write are those of their elements", "[core][run]") {
  constexpr std::int64_t kRows = 1031, kColumns = 769, kAll = kRows * kColumns;  // three shares
  const Parameter large{"large", {kRows, kColumns}, InitKind::Normal, 0.5};
  Program program = testing::program_of("dp_shard", 1);
  program.parameters = {large};
  testing::RoleBuilder role;
  Unit unit;
  unit.name = "u";
  unit.parameters = {{{0}, 0, {}}};
  unit.elements = unit.shard_elements = kAll;
  unit.states[StateKind::Param] = role.buffer(BufferKind::Param, DType::F64, kAll, true);
  role.unit(unit);
  program.roles.push_back(role.finish(testing::all_ranks(program)));
  Machine machine(program);
  REQUIRE(load_state(program, 0, {machine.devices[0]}, 7, nullptr).ok());
  const InitialValues expected(large, 7);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < kAll; ++i) {
    double value = 0;
    std::memcpy(&value, machine.ranks[0].arena.data() + 8 * i, 8);
    if (value != expected[i]) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("bfloat16 parameters are rounded to nearest", "[core][run]") {
  const TrainingState state = initial_state(sharded_program(1, DType::BF16), 0);
  const InitialValues a({"a", {3, 5}, InitKind::Normal, 0.5}, 7);
  for (int i = 0; i < 15; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, state.tensors.at("a").data.data() + 2 * i, 2);
    const auto value = std::bit_cast<float>(std::uint32_t{bits} << 16);
    CHECK(std::abs(value - a[i]) <= std::abs(a[i]) * 0x1p-8);  // half a unit of 8-bit precision
  }
}

TEST_CASE("a master copy keeps the state, and parameters are rounded from it", "[core][run]") {
  for (const int ranks : {1, 2, 5}) {
    for (const bool whole : {false, true}) {
      Program program = sharded_program(ranks, DType::F32, whole);
      Role& role = program.roles[0];
      Unit& unit = role.units[0];
      unit.states[StateKind::Master] = {static_cast<std::int32_t>(role.buffers.size())};
      Buffer master = role.buffer(unit.states[StateKind::Moment1]);
      master.kind = BufferKind::Master;
      master.offset = role.arena.v;
      role.arena += master.bytes;
      role.buffers.push_back(master);
      Buffer& param = role.buffers[unit.param()];
      param.dtype = DType::BF16;
      param.bytes.v /= 2;
      const TrainingState state = initial_state(program, 4);
      CHECK(state.tensors.at("a").dtype == DType::F32);
      CHECK(state == initial_state(sharded_program(1, DType::F32), 4));

      Machine machine(program);  // from the seed, and from a state: the same values either way
      Machine resumed(program);
      for (Rank rank = 0; rank < ranks; ++rank) {
        REQUIRE(load_state(program, rank, {machine.devices[rank]}, 7, nullptr).ok());
        REQUIRE(load(program, rank, resumed.devices[rank], 0, state).ok());
        CHECK(machine.ranks[rank].arena == resumed.ranks[rank].arena);
        for (const ShardPiece& piece : shard_pieces(program, rank, unit, StateKind::Param)) {
          const InitialValues values(program.parameters[piece.parameter], 7);
          for (std::int64_t i = 0; i < piece.count; ++i) {
            bfloat16 held;
            std::memcpy(&held,
                        machine.ranks[rank].arena.data() + role.arena_offset(unit.param()) +
                            2 * (piece.at + i),
                        2);
            CHECK(held == bfloat16(static_cast<float>(values[piece.begin + i])));
          }
        }
      }
    }
  }
}

TEST_CASE("each process copies what it alone saves, and all of them together copy everything once",
          "[core][run]") {
  for (const int ranks : {1, 2, 3}) {
    for (const bool whole_param : {false, true}) {
      const Program program = sharded_program(ranks, DType::F32, whole_param);
      const TrainingState state = initial_state(program, 4);
      Machine machine(program);
      const StateHead head = state_head(program, 4, 32);
      CHECK(head.samples == 32);
      TrainingState together;
      for (const auto& [name, info] : head.tensors) {
        together.tensors[name] = {info.dtype, info.shape, {}};
        together.tensors[name].data.resize(to_size(info.bytes()));
      }
      std::size_t bytes = 0, largest = 0;
      for (const RankPort& port : machine.ports) {
        REQUIRE(load(program, port.rank, *port.device, 0, state).ok());
        StateSnapshot snapshot(program, {&port, 1});
        snapshot.begin();
        REQUIRE(snapshot.copy().ok());
        std::size_t own = 0;
        for (const StateSnapshot::Piece& piece : snapshot.pieces()) {
          const auto values = snapshot.values(piece);
          std::copy(values.begin(), values.end(),
                    together.tensors.at(piece.tensor).data.begin() + piece.begin);
          own += values.size();
        }
        bytes += own;
        largest = std::max(largest, own);
      }
      CHECK(together.tensors == state.tensors);
      std::size_t whole = 0;
      for (const auto& [name, tensor] : state.tensors) whole += tensor.data.size();
      CHECK(bytes == whole);
      // Divided moments are saved by those who hold them; only a parameter that is whole everywhere
      // comes from the lowest rank.
      if (ranks > 1 && !whole_param)
        CHECK(largest <= whole / to_size(ranks) + 3 * 2 * sizeof(float));
    }
  }
}

TEST_CASE("a piece of state from another process is checked before it is used", "[core][run]") {
  struct Header {
    std::uint64_t tensor;
    std::int64_t begin, bytes;
  };
  TrainingState state;
  state.tensors["a"] = {DType::F32, {4}, std::vector<std::byte>(16)};
  const auto place = [&](const Header& header, std::size_t values) {
    std::vector<std::byte> bytes(sizeof header + values, std::byte{7});
    std::memcpy(bytes.data(), &header, sizeof header);
    return place_pieces(bytes, state).ok();
  };
  CHECK(place({0, 8, 8}, 8));
  CHECK(state.tensors["a"].data[8] == std::byte{7});
  CHECK(state.tensors["a"].data[7] == std::byte{0});
  CHECK(place({0, 16, 0}, 0));
  for (const Header& bad : std::vector<Header>{{1, 0, 8},
                                               {~std::uint64_t{0}, 0, 8},
                                               {0, 12, 8},
                                               {0, -4, 8},
                                               {0, 0, -8},
                                               {0, std::numeric_limits<std::int64_t>::max(), 8},
                                               {0, 0, 16},
                                               {0, 8, std::numeric_limits<std::int64_t>::max()}}) {
    CHECK_FALSE(place(bad, 8));
  }
  CHECK_FALSE(place_pieces(std::vector<std::byte>(5), state).ok());
}

TEST_CASE("what was frozen in 16 bits goes on in 32, with moments that begin as zeros",
          "[core][run]") {
  const Program program = sharded_program(1, DType::F32);
  const TrainingState whole = initial_state(program, 3);
  TrainingState frozen = whole;
  Tensor& a = frozen.tensors.at("a");
  a.dtype = DType::BF16;
  std::vector<float> values(15);
  std::memcpy(values.data(), a.data.data(), a.data.size());
  a.data.resize(values.size() * sizeof(bfloat16));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bfloat16 rounded(values[i]);
    std::memcpy(a.data.data() + i * sizeof rounded, &rounded, sizeof rounded);
    values[i] = static_cast<float>(rounded);
  }
  frozen.tensors.erase("adam_m.a");
  frozen.tensors.erase("adam_v.a");

  Machine machine(program);
  const auto loaded = load(program, 0, {machine.devices[0]}, 7, frozen);
  if (!loaded) FAIL(to_string(loaded.error()));
  SoleProcess process;
  const auto state = gather_state(program, machine.ports, process, 3);
  REQUIRE(state.ok());
  std::vector<float> found(values.size());
  std::memcpy(found.data(), state->tensors.at("a").data.data(), found.size() * sizeof(float));
  CHECK(found == values);
  CHECK(state->tensors.at("adam_m.a").data == std::vector<std::byte>(60, std::byte{0}));
  CHECK(state->tensors.at("b") == whole.tensors.at("b"));
  // One moment without the other was not left by a parameter that was frozen.
  frozen.tensors["adam_m.a"] = whole.tensors.at("adam_m.a");
  CHECK(load_error(program, frozen).message == "initial state: tensor 'adam_v.a' is missing");
}

}  // namespace lockstep
