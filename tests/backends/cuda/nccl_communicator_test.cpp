#include "backends/cuda/nccl_communicator.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "tests/backends/cuda/fake_nccl.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep::cuda {
namespace {

using test::FakeGpu;
using test::FakeNccl;

/// Two stages of two replicas: messages both ways along pp, an all-reduce along dp.
Program pipeline_program() {
  Program program;
  program.mesh.dims = {{"pp", 2}, {"dp", 2}};
  program.groups.push_back({"dp", {1}, {}});
  program.role_of_rank = {RoleId{0}, RoleId{0}, RoleId{1}, RoleId{1}};
  for (int stage = 0; stage < 2; ++stage) {
    testing::RoleBuilder role;
    const BufferId a = role.buffer(BufferKind::Comm, DType::F32, 12);
    const BufferId b = role.buffer(BufferKind::Comm, DType::F32, 12);
    const bool first = stage == 0;
    role.op(first ? OpKind::Send : OpKind::Recv, first ? Stream::SendForward : Stream::RecvForward,
            1 - stage, {a});
    role.op(first ? OpKind::Recv : OpKind::Send,
            first ? Stream::RecvBackward : Stream::SendBackward, 1 - stage, {b});
    role.op(OpKind::AllReduce, Stream::Replicate, 0, {a});
    program.roles.push_back(role.finish({2 * stage, 2 * stage + 1}));
  }
  return program;
}

std::vector<NcclRank> a_gpu_each(int ranks, std::vector<std::unique_ptr<FakeGpu>>& gpus) {
  std::vector<NcclRank> members;
  for (Rank r = 0; r < ranks; ++r) {
    gpus.push_back(std::make_unique<FakeGpu>());
    members.push_back({r, gpus.back().get()});
  }
  return members;
}

/// Rank 0 of the pipeline in the middle of a step, on a GPU of its own. The other ranks never call,
/// so nobody receives what it sends.
struct LoneRank {
  explicit LoneRank(double timeout = 0) {
    world = std::move(NcclWorld::join(program, a_gpu_each(4, gpus), nccl, process).value());
    node.emplace(*gpus[0], process);
    device = std::move(CudaDevice::create(program, 0, *gpus[0], *node).value());
    communicator.emplace(program, 0, *device, *world, timeout);
    device->begin_step({});
  }

  Result<void> send() {
    std::byte* const arg = device->arena();
    const std::int64_t bytes = 48;
    return communicator->enqueue({0}, program.roles[0].op({0}), {&arg, 1}, {&bytes, 1}, DType::F32);
  }

  const Program program = pipeline_program();
  FakeNccl nccl;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  SoleProcess process;
  std::unique_ptr<NcclWorld> world;
  std::optional<Node> node;
  std::unique_ptr<CudaDevice> device;
  std::optional<NcclCommunicator> communicator;
};

}  // namespace

TEST_CASE("every group and every channel has a communicator of its own", "[backends][cuda]") {
  const auto all = communicators_of(pipeline_program());
  const std::map<CommKey, CommMembers> expected = {{{0, 0, 0}, {{0, 1}}}, {{0, 0, 2}, {{2, 3}}},
                                                   {{1, 0, 2}, {{0, 2}}}, {{1, 1, 3}, {{1, 3}}},
                                                   {{2, 2, 0}, {{2, 0}}}, {{2, 3, 1}, {{3, 1}}}};
  CHECK(all == expected);
}

TEST_CASE("the ranks of a process join each communicator in one group, with one id",
          "[backends][cuda]") {
  const Program program = pipeline_program();
  FakeNccl nccl;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  SoleProcess process;
  {
    const auto world = NcclWorld::join(program, a_gpu_each(4, gpus), nccl, process);
    REQUIRE(world.ok());
    CHECK(nccl.ids == 6);
    REQUIRE(nccl.comms.size() == 12);
    std::set<std::byte> ids;
    for (std::size_t i = 0; i < 12; i += 2) {
      const auto &a = *nccl.comms[i], &b = *nccl.comms[i + 1];
      CHECK(a.id == b.id);
      CHECK((a.position + b.position == 1 && a.size == 2 && b.size == 2));
      CHECK((a.in_group && b.in_group && a.polls > nccl.polls_until_ready));
      ids.insert(a.id[0]);
    }
    CHECK(ids.size() == 6);
    // All kernels of a GPU's communicators together leave room for compute.
    CHECK(nccl.comms[0]->blocks > nccl.comms[11]->blocks);
  }
  for (const auto& comm : nccl.comms) CHECK((comm->destroyed && !comm->aborted));
}

TEST_CASE("two ranks on one GPU are refused and told of 'local'", "[backends][cuda]") {
  const Program program = pipeline_program();
  FakeNccl nccl;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  std::vector<NcclRank> ranks = a_gpu_each(4, gpus);
  ranks[3].gpu = ranks[1].gpu;
  SoleProcess process;
  const auto world = NcclWorld::join(program, ranks, nccl, process);
  REQUIRE_FALSE(world.ok());
  CHECK(world.error().kind == ErrorKind::Unsupported);
  CHECK_THAT(world.error().message, ContainsSubstring("ranks 1 and 3 share a GPU"));
  CHECK_THAT(world.error().message, ContainsSubstring("'local'"));
  CHECK(nccl.comms.empty());
}

TEST_CASE("a rank that never joins is an error in time, and the others are let go",
          "[backends][cuda]") {
  const Program program = pipeline_program();
  FakeNccl nccl;
  nccl.polls_until_ready = 1 << 30;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  SoleProcess process;
  const auto world = NcclWorld::join(program, a_gpu_each(4, gpus), nccl, process, 0.01);
  REQUIRE_FALSE(world.ok());
  CHECK_THAT(world.error().message, ContainsSubstring("not all of 2 ranks joined"));
  for (const auto& comm : nccl.comms) CHECK(comm->aborted);
}

TEST_CASE("members call the same collectives in the same order, with the elements NCCL counts",
          "[backends][cuda]") {
  Program program = testing::program_of("dp", 2);
  testing::RoleBuilder builder;
  const BufferId part = builder.buffer(BufferKind::Comm, DType::F32, 6);
  const BufferId full = builder.buffer(BufferKind::Comm, DType::F32, 12);
  const BufferId other = builder.buffer(BufferKind::Comm, DType::F32, 12);
  builder.op(OpKind::AllReduce, Stream::Reduce, 0, {full});
  builder.op(OpKind::AllGather, Stream::Gather, 0, {part, full});
  builder.op(OpKind::ReduceScatter, Stream::Reduce, 0, {full, part});
  builder.op(OpKind::Broadcast, Stream::Layer, 0, {part});
  builder.op(OpKind::AllToAll, Stream::Layer, 0, {full, other});
  builder.op(OpKind::Rotate, Stream::Layer, 0, {full, other});
  program.roles.push_back(builder.finish({0, 1}));
  FakeNccl nccl;
  nccl.moves = false;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  const auto ranks = a_gpu_each(2, gpus);
  SoleProcess process;
  const auto world = NcclWorld::join(program, ranks, nccl, process);
  REQUIRE(world.ok());
  for (Rank r = 0; r < 2; ++r) {
    Node node(*gpus[r], process);
    auto device = CudaDevice::create(program, r, *gpus[r], node);
    REQUIRE(device.ok());
    NcclCommunicator communicator(program, r, **device, **world);
    (*device)->begin_step({});
    const Role& role = program.roles[0];
    for (int i = 0; i < static_cast<int>(role.ops.size()); ++i) {
      const Op& op = role.op({i});
      std::vector<std::byte*> args;
      std::vector<std::int64_t> bytes;
      for (const BufferId arg : role.args_of(op)) {
        args.push_back((*device)->arena() + role.arena_offset(arg));
        bytes.push_back(role.buffer(arg).bytes.v);
      }
      REQUIRE(communicator.enqueue({i}, op, args, bytes, DType::F32).ok());
    }
    CHECK((*device)->synchronize().ok());
  }
  REQUIRE(nccl.comms.size() == 2);
  for (const int own : {0, 1}) {
    const std::string peer = " peer " + std::to_string(1 - own) + " grouped";
    const std::vector<std::string> expected = {"send 1" + peer,  // connected as they join
                                               "receive 1" + peer,
                                               "all_reduce 12",
                                               "all_gather 6",
                                               "reduce_scatter 6",
                                               "broadcast 6",
                                               "send 6 peer 0 grouped",
                                               "receive 6 peer 0 grouped",
                                               "send 6 peer 1 grouped",
                                               "receive 6 peer 1 grouped",
                                               "send 12" + peer,
                                               "receive 12" + peer};
    CHECK(nccl.comms[own]->calls == expected);
  }
}

TEST_CASE("rows go as messages of as many as counts say, and none where there are none",
          "[backends][cuda]") {
  Program program = testing::program_of("dp", 2);
  testing::RoleBuilder builder;
  const BufferId from = builder.buffer(BufferKind::Comm, DType::F32, 3 * 10);
  const BufferId to = builder.buffer(BufferKind::Comm, DType::F32, 3 * 8);
  const BufferId goes = builder.buffer(BufferKind::Comm, DType::I32, 4);
  const BufferId comes = builder.buffer(BufferKind::Comm, DType::I32, 4);
  builder.op(OpKind::AllToAllRows, Stream::Layer, 0, {from, to, goes, comes});
  Role role = builder.finish({0, 1});
  REQUIRE(role.expect_rows(role.ops[0], {10, 12}));
  program.roles.push_back(role);
  FakeNccl nccl;
  nccl.moves = false;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  const auto ranks = a_gpu_each(2, gpus);
  SoleProcess process;
  const auto world = NcclWorld::join(program, ranks, nccl, process);
  REQUIRE(world.ok());
  const auto run = [&](Rank r, std::array<std::int32_t, 4> sent,
                       std::array<std::int32_t, 4> received) {
    Node node(*gpus[r], process);
    auto device = CudaDevice::create(program, r, *gpus[r], node);
    REQUIRE(device.ok());
    CHECK_FALSE((*device)->use_graphs().ok());  // the host must know the counts
    NcclCommunicator communicator(program, r, **device, **world);
    (*device)->begin_step({});
    std::vector<std::byte*> args;
    std::vector<std::int64_t> bytes;
    for (const BufferId arg : role.args_of(role.ops[0])) {
      args.push_back((*device)->arena() + role.arena_offset(arg));
      bytes.push_back(role.buffer(arg).bytes.v);
    }
    std::memcpy(args[2], sent.data(), sizeof sent);
    std::memcpy(args[3], received.data(), sizeof received);
    REQUIRE(communicator.enqueue({0}, role.ops[0], args, bytes, DType::F32).ok());
    return (*device)->synchronize().ok();
  };
  CHECK(run(0, {1, 2, 0, 4}, {1, 2, 0, 0}));
  const std::vector<std::string> expected = {"send 1 peer 1 grouped", "receive 1 peer 1 grouped",
                                             "send 9 peer 0 grouped", "receive 9 peer 0 grouped",
                                             "send 12 peer 1 grouped"};
  CHECK(nccl.comms[0]->calls == expected);
  CHECK_FALSE(run(1, {0, 0, 0, 6}, {0, 4, 0, 6}));  // ten rows in eight places
}

TEST_CASE("counted rows are gathered by messages, and summed for each member that has some",
          "[backends][cuda]") {
  const auto calls = [](OpKind kind, std::array<std::int32_t, 4> counts) {
    const bool gathers = kind == OpKind::AllGatherRows;
    Program program = testing::program_of("dp", 2);
    testing::RoleBuilder builder;
    const BufferId from = builder.buffer(BufferKind::Comm, DType::F32, 3 * (gathers ? 8 : 16));
    const BufferId to = builder.buffer(BufferKind::Comm, DType::F32, 3 * (gathers ? 16 : 8));
    const BufferId rows = builder.buffer(BufferKind::Comm, DType::I32, 4);
    builder.op(kind, Stream::Layer, 0, {from, to, rows});
    Role role = builder.finish({0, 1});
    REQUIRE(role.expect_rows(role.ops[0], {5, 12}));
    program.roles.push_back(role);
    FakeNccl nccl;
    nccl.moves = false;
    std::vector<std::unique_ptr<FakeGpu>> gpus;
    const auto ranks = a_gpu_each(2, gpus);
    SoleProcess process;
    const auto world = NcclWorld::join(program, ranks, nccl, process);
    REQUIRE(world.ok());
    Node node(*gpus[0], process);
    auto device = CudaDevice::create(program, 0, *gpus[0], node);
    REQUIRE(device.ok());
    CHECK_FALSE((*device)->use_graphs().ok());  // the host must know the counts
    NcclCommunicator communicator(program, 0, **device, **world);
    (*device)->begin_step({});
    std::vector<std::byte*> args;
    std::vector<std::int64_t> bytes;
    for (const BufferId arg : role.args_of(role.ops[0])) {
      args.push_back((*device)->arena() + role.arena_offset(arg));
      bytes.push_back(role.buffer(arg).bytes.v);
    }
    std::memcpy(args[2], counts.data(), sizeof counts);
    nccl.comms[0]->calls.clear();  // those that connect the members of a gather
    REQUIRE(communicator.enqueue({0}, role.ops[0], args, bytes, DType::F32).ok());
    REQUIRE((*device)->synchronize().ok());
    return nccl.comms[0]->calls;
  };
  using Calls = std::vector<std::string>;
  CHECK(calls(OpKind::AllGatherRows, {1, 2, 0, 5}) ==
        Calls{"send 9 peer 0 grouped", "receive 9 peer 0 grouped", "send 9 peer 1 grouped",
              "receive 15 peer 1 grouped"});
  CHECK(calls(OpKind::AllGatherRows, {0, 0, 0, 5}) == Calls{"receive 15 peer 1 grouped"});
  CHECK(calls(OpKind::ReduceScatterRows, {1, 2, 0, 5}) ==
        Calls{"reduce 9 grouped", "reduce 15 grouped"});
  CHECK(calls(OpKind::ReduceScatterRows, {1, 2, 0, 0}) == Calls{"reduce 9 grouped"});
}

TEST_CASE("a communicator that fails ends the step and lets go of every other",
          "[backends][cuda]") {
  LoneRank rank;
  REQUIRE(rank.send().ok());
  rank.nccl.broken = true;
  const auto times = rank.device->synchronize();
  REQUIRE_FALSE(times.ok());
  CHECK(times.error().message == "a peer is gone");
  rank.communicator->abort(times.error());
  rank.communicator->abort(times.error());
  for (const auto& comm : rank.nccl.comms) CHECK((comm->aborted && !comm->destroyed));
}

TEST_CASE(
    "a transfer for which no peer comes ends the run in time, and a step that takes long does not",
    "[backends][cuda]") {
  constexpr double kTimeout = 0.1;
  LoneRank rank(kTimeout);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(2 * kTimeout);
  REQUIRE(rank.device
              ->enqueue_work({0}, Stream::SendForward,
                             [&] {
                               return rank.gpus[0]->enqueue(
                                   rank.device->handle(Stream::SendForward), "compute",
                                   [&] { return std::chrono::steady_clock::now() > end; });
                             })
              .ok());
  CHECK(rank.device->synchronize().ok());
  rank.device->begin_step({1});
  REQUIRE(rank.send().ok());
  const auto times = rank.device->synchronize();
  REQUIRE_FALSE(times.ok());
  CHECK(times.error().kind == ErrorKind::Device);
  CHECK_THAT(times.error().message, ContainsSubstring("rank 0: its GPU has not ended step 1 for"));
  CHECK_THAT(times.error().message,
             ContainsSubstring(std::string(" ") + std::string(to_string(Stream::SendForward)) +
                               " (LOCKSTEP_TIMEOUT_SECONDS)"));
  rank.communicator->abort(times.error());
}

TEST_CASE("neighbours that both send first do not wait for each other to connect",
          "[backends][cuda]") {
  Program program = testing::program_of("pp", 2);
  program.role_of_rank = {RoleId{0}, RoleId{1}};
  for (int stage = 0; stage < 2; ++stage) {
    testing::RoleBuilder role;
    const BufferId a = role.buffer(BufferKind::Comm, DType::F32, 12);
    const BufferId b = role.buffer(BufferKind::Comm, DType::F32, 12);
    role.op(OpKind::Send, stage == 0 ? Stream::SendForward : Stream::SendBackward, 1 - stage, {a});
    role.op(OpKind::Recv, stage == 0 ? Stream::RecvBackward : Stream::RecvForward, 1 - stage, {b});
    program.roles.push_back(role.finish({stage}));
  }
  FakeNccl nccl;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  SoleProcess process;
  const auto world = NcclWorld::join(program, a_gpu_each(2, gpus), nccl, process);
  REQUIRE(world.ok());
  const auto run = [&](Rank r) {
    Node node(*gpus[r], process);
    auto device = CudaDevice::create(program, r, *gpus[r], node);
    if (!device) return false;
    NcclCommunicator communicator(program, r, **device, **world);
    auto* const values = reinterpret_cast<float*>((*device)->arena());
    for (int i = 0; i < 12; ++i) values[i] = static_cast<float>(100 * r + i);
    (*device)->begin_step({});
    const Role& role = program.role_of(r);
    const std::int64_t bytes = 48;
    bool well = true;
    for (int i = 0; i < 2; ++i) {
      std::byte* const arg = (*device)->arena() + role.arena_offset(role.args_of(role.op({i}))[0]);
      well = well && communicator.enqueue({i}, role.op({i}), {&arg, 1}, {&bytes, 1}, DType::F32);
    }
    well = well && (*device)->synchronize();
    const auto* got = reinterpret_cast<const float*>(
        (*device)->arena() + role.arena_offset(role.args_of(role.op({1}))[0]));
    return well && got[11] == static_cast<float>(100 * (1 - r) + 11);
  };
  std::future<bool> first = std::async(std::launch::async, run, 0);
  std::future<bool> second = std::async(std::launch::async, run, 1);
  if (first.wait_for(std::chrono::seconds(20)) == std::future_status::timeout) {
    process.fail(Error{ErrorKind::Device, "they wait for each other", std::nullopt});
  }
  CHECK(first.get());
  CHECK(second.get());
}

TEST_CASE("a rank that waits for NCCL to take a call lets go when another fails",
          "[backends][cuda]") {
  const Program program = pipeline_program();
  FakeNccl nccl;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  SoleProcess process;
  const auto world = NcclWorld::join(program, a_gpu_each(4, gpus), nccl, process);
  REQUIRE(world.ok());
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::unique_ptr<CudaDevice>> devices;
  std::deque<NcclCommunicator> communicators;
  for (Rank r = 0; r < 2; ++r) {
    nodes.push_back(std::make_unique<Node>(*gpus[r], process));
    auto device = CudaDevice::create(program, r, *gpus[r], *nodes.back());
    REQUIRE(device.ok());
    devices.push_back(std::move(*device));
    communicators.emplace_back(program, r, *devices.back(), **world);
    devices.back()->begin_step({});
  }
  nccl.takes = false;
  const Op& send = program.roles[0].op({0});
  std::byte* const arg = devices[0]->arena();
  const std::int64_t bytes = 48;
  std::thread waits([&] {  // holding its node's lock
    static_cast<void>(communicators[0].enqueue({0}, send, {&arg, 1}, {&bytes, 1}, DType::F32));
  });
  while (nccl.polls_in_vain < 10) std::this_thread::yield();
  const Error reason{ErrorKind::Device, "rank 1 has failed", std::nullopt};
  for (NcclCommunicator& communicator : communicators) communicator.abort(reason);
  waits.join();
  const auto times = devices[0]->synchronize();
  REQUIRE_FALSE(times.ok());
  CHECK(times.error().message == "rank 1 has failed");
}

}  // namespace lockstep::cuda
