#include "core/run/snapshot.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/catch.hpp"
#include "tests/core/run/fake_device.hpp"
#include "tests/core/run/memory_store.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep {
namespace {

constexpr int kElements = 3 << 19;  // some blocks of a snapshot

/// One rank, whose step reads its parameter twice and updates the second half of it.
Program updating_program() {
  Program program = testing::program_of("dp_replicate", 1);
  program.parameters = {{"w", {kElements}, InitKind::Normal, 1.0}};
  Kernel delay;
  delay.kind = KernelKind::Delay;
  const std::int32_t forward = testing::add_function(
      program, "f.F", {{"w", Access::Read, {4}}, {"y", Access::Write, {4}}}, {delay});
  const std::int32_t update =
      testing::add_function(program, "f.U", {{"w", Access::ReadWrite, {4}}}, {delay});
  testing::RoleBuilder role;
  Unit unit;
  unit.name = "w";
  unit.parameters = {{{0}, 0, {}}};
  unit.elements = unit.shard_elements = kElements;
  const BufferId other = role.buffer(BufferKind::Activation, DType::F32, 16);
  unit.states[StateKind::Param] = role.buffer(BufferKind::Param, DType::F32, kElements, true);
  role.unit(unit);
  const BufferId half = role.view(unit.param(), kElements / 2, kElements / 2);
  role.op(OpKind::Call, Stream::Compute, forward, {half, other});
  role.op(OpKind::Call, Stream::Compute, forward, {unit.param(), other});
  role.op(OpKind::Call, Stream::Compute, update, {half});
  program.roles.push_back(role.finish({0}));
  program.input.samples.per_step = 1;
  return program;
}

}  // namespace

TEST_CASE("the first update is the first op that writes what is saved, also a part of it",
          "[core][run]") {
  Program program = updating_program();
  CHECK(first_update(program, 0) == OpId{2});
  program.roles[0].units.clear();
  CHECK(first_update(program, 0) == OpId{3});
}

TEST_CASE("a state is saved as it was before the next step changed it, however slow copying is",
          "[core][run]") {
  const Program program = updating_program();
  testing::FakeRank rank;
  rank.arena.resize(to_size(program.roles[0].arena.v));
  // Every step adds one to the second half of w, which is 1 in the initial state.
  auto* const w =
      reinterpret_cast<float*>(rank.arena.data() + program.roles[0].arena_offset(BufferId{1}));
  int calls = 0;
  rank.on_call = [&] {
    if (++calls % 3 != 0) return;
    for (int i = kElements / 2; i < kElements; ++i) w[i] += 1;
  };
  rank.on_read = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  testing::FakeDevice device(rank);
  testing::FakeCommunicator communicator(rank, device);
  const RankPort port{0, &device, &communicator};
  TrainingState start;
  start.tensors["w"] = {DType::F32, {kElements}, std::vector<std::byte>(4 * kElements)};
  const std::vector<float> ones(kElements, 1);
  std::memcpy(start.tensors["w"].data.data(), ones.data(), 4 * kElements);
  testing::MemoryDisk disk;
  testing::MemoryStore store(disk);
  RunOptions options;
  options.steps = 5;
  options.initial_state = &start;
  options.store = &store;
  options.checkpoint_every = 1;
  REQUIRE(execute(program, options, "fake", {&port, 1}, {}).ok());
  REQUIRE(disk.saved.size() == 5);
  for (int step = 1; step <= 5; ++step) {
    std::vector<float> saved(kElements), expected(kElements, 1);
    std::fill(expected.begin() + kElements / 2, expected.end(), 1.0F + static_cast<float>(step));
    std::memcpy(saved.data(), disk.saved[to_size(step - 1)].tensors.at("w").data.data(),
                4 * kElements);
    CHECK((saved == expected));
  }
}

TEST_CASE("those who wait for a copy share its work", "[core][run]") {
  const Program program = updating_program();
  testing::FakeRank rank;
  rank.arena.resize(to_size(program.roles[0].arena.v));
  std::atomic<int> reading = 0, most = 0;
  rank.on_read = [&] {
    const int now = ++reading;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --reading;
  };
  testing::FakeDevice device(rank);
  const RankPort port{0, &device, nullptr};
  StateSnapshot snapshot(program, {&port, 1});
  CHECK(snapshot.copy().ok());
  CHECK(most == 0);  // nothing was asked for
  snapshot.begin();
  bool well = false;
  std::thread other([&] { well = snapshot.copy().ok(); });
  const auto copied = snapshot.copy();
  other.join();
  CHECK(copied.ok());
  CHECK(well);
  CHECK(most == 2);
}

}  // namespace lockstep
