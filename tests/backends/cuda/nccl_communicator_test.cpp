#include "backends/cuda/nccl_communicator.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "tests/backends/cuda/fake_gpu.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep::cuda {
namespace {

using test::FakeGpu;
using testing::index;

/// Records who joins what and what is called on it; moves nothing.
struct FakeNccl final : Nccl {
  struct Comm {
    NcclId id{};
    int size = 0, position = 0, blocks = 0;
    bool in_group = false, aborted = false, destroyed = false;
    int polls = 0;
    std::vector<std::string> calls;
  };
  std::vector<std::unique_ptr<Comm>> comms;
  int ids = 0, depth = 0, groups = 0;
  int polls_until_ready = 2;
  bool broken = false;  // ready() fails

  static Comm& of(CommHandle comm) { return *reinterpret_cast<Comm*>(comm); }
  Result<void> call(CommHandle comm, const std::string& name, std::int64_t elements, int peer) {
    of(comm).calls.push_back(name + " " + std::to_string(elements) +
                             (peer < 0 ? "" : " peer " + std::to_string(peer)) +
                             (depth > 0 ? " grouped" : ""));
    return {};
  }
  Result<NcclId> unique_id() override {
    NcclId id{};
    id[0] = static_cast<std::byte>(++ids);
    return id;
  }
  Result<CommHandle> join(Driver&, const NcclId& id, int size, int position, int blocks) override {
    comms.push_back(std::make_unique<Comm>());
    Comm& comm = *comms.back();
    comm.id = id;
    comm.size = size;
    comm.position = position;
    comm.blocks = blocks;
    comm.in_group = depth > 0;
    return reinterpret_cast<CommHandle>(comms.back().get());
  }
  Result<bool> ready(CommHandle comm) override {
    if (broken) return Error{ErrorKind::Device, "a peer is gone", std::nullopt};
    return ++of(comm).polls > polls_until_ready;
  }
  void abort(CommHandle comm) override { of(comm).aborted = true; }
  void destroy(CommHandle comm) override { of(comm).destroyed = true; }
  Result<void> group_start() override { return ++depth, ++groups, Result<void>(); }
  Result<void> group_end() override { return --depth, Result<void>(); }
  Result<void> all_reduce(CommHandle c, StreamHandle, std::byte*, std::int64_t n, DType) override {
    return call(c, "all_reduce", n, -1);
  }
  Result<void> all_gather(CommHandle c, StreamHandle, const std::byte*, std::byte*, std::int64_t n,
                          DType) override {
    return call(c, "all_gather", n, -1);
  }
  Result<void> reduce_scatter(CommHandle c, StreamHandle, const std::byte*, std::byte*,
                              std::int64_t n, DType) override {
    return call(c, "reduce_scatter", n, -1);
  }
  Result<void> broadcast(CommHandle c, StreamHandle, std::byte*, std::int64_t n, DType) override {
    return call(c, "broadcast", n, -1);
  }
  Result<void> send(CommHandle c, StreamHandle, const std::byte*, std::int64_t n, DType,
                    int to) override {
    return call(c, "send", n, to);
  }
  Result<void> receive(CommHandle c, StreamHandle, std::byte*, std::int64_t n, DType,
                       int from) override {
    return call(c, "receive", n, from);
  }
};

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

}  // namespace

TEST_CASE("every group and every channel has a communicator of its own", "[backends][cuda]") {
  const auto all = communicators_of(pipeline_program());
  const std::map<CommKey, std::vector<Rank>> expected = {{{0, 0, 0}, {0, 1}}, {{0, 0, 2}, {2, 3}},
                                                         {{1, 0, 2}, {0, 2}}, {{1, 1, 3}, {1, 3}},
                                                         {{2, 2, 0}, {2, 0}}, {{2, 3, 1}, {3, 1}}};
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
  builder.op(OpKind::Broadcast, Stream::Tp, 0, {part});
  builder.op(OpKind::AllToAll, Stream::Tp, 0, {full, other});
  program.roles.push_back(builder.finish({0, 1}));
  FakeNccl nccl;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  const auto ranks = a_gpu_each(2, gpus);
  SoleProcess process;
  const auto world = NcclWorld::join(program, ranks, nccl, process);
  REQUIRE(world.ok());
  for (Rank r = 0; r < 2; ++r) {
    Node node(*gpus[index(r)], process);
    auto device = CudaDevice::create(program, r, *gpus[index(r)], node);
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
  const std::vector<std::string> expected = {"all_reduce 12",         "all_gather 6",
                                             "reduce_scatter 6",      "broadcast 6",
                                             "send 6 peer 0 grouped", "receive 6 peer 0 grouped",
                                             "send 6 peer 1 grouped", "receive 6 peer 1 grouped"};
  CHECK(nccl.comms[0]->calls == expected);
  CHECK(nccl.comms[1]->calls == expected);
}

TEST_CASE("a communicator that fails ends the step and lets go of every other",
          "[backends][cuda]") {
  const Program program = pipeline_program();
  FakeNccl nccl;
  std::vector<std::unique_ptr<FakeGpu>> gpus;
  SoleProcess process;
  const auto world = NcclWorld::join(program, a_gpu_each(4, gpus), nccl, process);
  REQUIRE(world.ok());
  Node node(*gpus[0], process);
  auto device = CudaDevice::create(program, 0, *gpus[0], node);
  REQUIRE(device.ok());
  NcclCommunicator communicator(program, 0, **device, **world);
  (*device)->begin_step({});
  for (int i = 0; i < 3; ++i) {
    REQUIRE((*device)
                ->enqueue_work({i}, program.roles[0].op({i}).stream,
                               [&] {
                                 return gpus[0]->fill(
                                     (*device)->handle(program.roles[0].op({i}).stream),
                                     (*device)->arena(), 0, 4);
                               })
                .ok());
  }
  nccl.broken = true;
  const auto times = (*device)->synchronize();
  REQUIRE_FALSE(times.ok());
  CHECK(times.error().message == "a peer is gone");
  communicator.abort(times.error());
  communicator.abort(times.error());
  for (const auto& comm : nccl.comms) CHECK((comm->aborted && !comm->destroyed));
}

}  // namespace lockstep::cuda
