#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_device.hpp"
#include "backends/local/fabric.hpp"
#include "core/run/watch.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep::cpu {
namespace {

/// `ops` ops that do nothing by themselves, op i on stream streams[i % size].
Program idle_program(int ops, const std::vector<Stream>& streams) {
  Program program = testing::program_of("dp", 1);
  testing::RoleBuilder role;
  const BufferId buffer = role.buffer(BufferKind::Workspace, DType::I32, 16);
  for (int i = 0; i < ops; ++i) {
    role.op(OpKind::HostToDevice, streams[to_size(i) % streams.size()], 0, {buffer});
  }
  program.roles.push_back(role.finish({0}));
  return program;
}

std::unique_ptr<CpuDevice> make_device(const Program& program, local::Fabric& fabric) {
  auto device = CpuDevice::create(program, 0, 1, fabric);
  REQUIRE(device.ok());
  return std::move(*device);
}

}  // namespace

TEST_CASE("a stream runs its ops in order and a wait holds it until the op has ended",
          "[backends][cpu]") {
  // A random program over three streams: every op may wait for earlier ones, and some are slow.
  const std::vector<Stream> streams = {Stream::Compute, Stream::Reduce, Stream::Copy};
  constexpr int kOps = 60;
  const Program program = idle_program(kOps, streams);
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    local::Fabric fabric;
    const auto device = make_device(program, fabric);
    for (int step = 0; step < 2; ++step) {
      device->begin_step({step, 0});
      std::vector<std::pair<int, int>> edges;
      for (int i = 0; i < kOps; ++i) {
        const Stream stream = streams[to_size(i) % streams.size()];
        if (i >= 3) edges.emplace_back(i - 3, i);
        for (std::uint64_t w = random() % 3; w > 0 && i > 0; --w) {
          const int dependency = static_cast<int>(random() % static_cast<unsigned>(i));
          if (dependency % 3 == i % 3) continue;
          REQUIRE(device->wait(stream, {dependency}).ok());
          edges.emplace_back(dependency, i);
        }
        const std::chrono::microseconds delay{random() % 5 == 0 ? 200 : 0};
        REQUIRE(device
                    ->enqueue_task({i}, stream,
                                   [delay](SimTime begin) {
                                     std::this_thread::sleep_for(delay);
                                     return begin;
                                   })
                    .ok());
      }
      const auto times = device->synchronize();
      REQUIRE(times.ok());
      REQUIRE(times->size() == kOps);
      for (int i = 0; i < kOps; ++i) {
        const OpTime& time = (*times)[i];
        CHECK(time.op.v == i);
        CHECK(time.begin <= time.active);
        CHECK(time.active <= time.end);
      }
      for (const auto& [before, after] : edges) {
        CHECK((*times)[before].end <= (*times)[after].begin);
      }
    }
  }
}

TEST_CASE("a rank that waits for one that never comes ends within the timeout", "[backends][cpu]") {
  const Program program = idle_program(1, {Stream::Reduce});
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  Watch watch(fabric, 1, {});
  watch.start();
  device->begin_step({});
  local::Meeting& meeting = fabric.group({0}, 0, 2);  // with another rank
  REQUIRE(device
              ->enqueue_task({0}, Stream::Reduce,
                             [&](SimTime begin) {
                               static_cast<void>(meeting.arrive(0, 0, Party{}));
                               return begin;
                             })
              .ok());
  const auto times = device->synchronize();
  REQUIRE_FALSE(times.ok());
  CHECK_THAT(times.error().message, ContainsSubstring("no rank has ended an op for 0.8 s"));
}

TEST_CASE("streams run at the same time", "[backends][cpu]") {
  const Program program = idle_program(2, {Stream::Compute, Stream::Reduce});
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  device->begin_step({});
  std::atomic<int> arrived = 0;
  for (int i = 0; i < 2; ++i) {
    const Stream stream = i == 0 ? Stream::Compute : Stream::Reduce;
    REQUIRE(device
                ->enqueue_task({i}, stream,
                               [&](SimTime begin) {
                                 arrived.fetch_add(1);
                                 while (arrived.load() < 2) std::this_thread::yield();
                                 return begin;
                               })
                .ok());
  }
  CHECK(device->synchronize().ok());
}

TEST_CASE("the arena is aligned, has the planned size and is reached from the host",
          "[backends][cpu]") {
  const Program program = idle_program(1, {Stream::Copy});
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  CHECK(device->arena_bytes() == program.roles[0].arena.v);
  CHECK(reinterpret_cast<std::uintptr_t>(device->arena()) % 64 == 0);
  REQUIRE(device->fill(0, 64, 0xff).ok());
  const std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  REQUIRE(device->write(8, bytes).ok());
  std::vector<std::byte> back(5);
  REQUIRE(device->read(7, back).ok());
  CHECK(back == std::vector<std::byte>{std::byte{0xff}, std::byte{1}, std::byte{2}, std::byte{3},
                                       std::byte{0xff}});
}

TEST_CASE("host copies move bytes both ways", "[backends][cpu]") {
  const Program program = idle_program(2, {Stream::Copy});
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  device->begin_step({});
  std::vector<std::int32_t> from = {1, 2, 3, 4}, to(4);
  Op out = program.roles[0].ops[1];
  out.kind = OpKind::DeviceToHost;
  REQUIRE(
      device->enqueue_copy({0}, program.roles[0].ops[0], device->arena(), from.data(), 16).ok());
  REQUIRE(device->enqueue_copy({1}, out, device->arena(), to.data(), 16).ok());
  REQUIRE(device->synchronize().ok());
  CHECK(to == from);
}

TEST_CASE("an exception in an op fails the run and skips what follows", "[backends][cpu]") {
  const Program program = idle_program(3, {Stream::Compute});
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  device->begin_step({});
  bool ran = false;
  REQUIRE(device
              ->enqueue_task({0}, Stream::Compute,
                             [](SimTime) -> SimTime { throw std::runtime_error("out of tokens"); })
              .ok());
  REQUIRE(device
              ->enqueue_task({1}, Stream::Compute,
                             [&](SimTime begin) {
                               ran = true;
                               return begin;
                             })
              .ok());
  const auto result = device->synchronize();
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().kind == ErrorKind::Device);
  CHECK(result.error().message == "%0 failed: out of tokens");
  CHECK_FALSE(ran);
}

TEST_CASE("waiting for an op that is not enqueued is an error and not a hang", "[backends][cpu]") {
  const Program program = idle_program(2, {Stream::Compute, Stream::Copy});
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  device->begin_step({});
  const auto result = device->wait(Stream::Compute, {1});
  REQUIRE_FALSE(result.ok());
  CHECK_THAT(result.error().message, ContainsSubstring("%1, which is not enqueued"));
}

}  // namespace lockstep::cpu
