#include <chrono>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include "backends/local/fabric.hpp"
#include "backends/reference/reference_device.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep::reference {
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

std::unique_ptr<ReferenceDevice> make_device(const Program& program, local::Fabric& fabric) {
  auto device = ReferenceDevice::create(program, 0, fabric);
  REQUIRE(device.ok());
  return std::move(*device);
}

}  // namespace

TEST_CASE("streams keep their order and a wait holds one until the op has ended",
          "[backends][reference]") {
  // A random program over three streams: every op may wait for earlier ones and take several turns.
  const std::vector<Stream> streams = {Stream::Compute, Stream::Reduce, Stream::Copy};
  constexpr int kOps = 60;
  const Program program = idle_program(kOps, streams);
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  std::mt19937 random(11);
  for (int step = 0; step < 20; ++step) {
    device->begin_step({step, 0});
    std::vector<std::pair<int, int>> edges;
    for (int i = 0; i < kOps; ++i) {
      const Stream stream = streams[to_size(i) % streams.size()];
      if (i >= 3) edges.emplace_back(i - 3, i);
      if (i > 0 && random() % 2 == 0) {
        const int dependency = static_cast<int>(random() % static_cast<unsigned>(i));
        REQUIRE(device->wait(stream, {dependency}).ok());
        edges.emplace_back(dependency, i);
      }
      REQUIRE(device
                  ->enqueue_task({i}, stream,
                                 [turns = random() % 4](OpTime&) mutable { return turns-- == 0; })
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

TEST_CASE("an op that waits for a peer does not hold up another stream", "[backends][reference]") {
  // A receive that was posted early ends only after the send behind it in the list of ops has run.
  const Program program = idle_program(2, {Stream::RecvForward, Stream::SendForward});
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  device->begin_step({});
  bool sent = false;
  REQUIRE(device->enqueue_task({0}, Stream::RecvForward, [&](OpTime&) { return sent; }).ok());
  REQUIRE(
      device->enqueue_task({1}, Stream::SendForward, [&](OpTime&) { return sent = true; }).ok());
  CHECK(device->synchronize().ok());
}

TEST_CASE("the reference arena is aligned, has the planned size and is reached from the host",
          "[backends][reference]") {
  const Program program = idle_program(1, {Stream::Copy});
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  CHECK(device->arena_bytes() == program.roles[0].arena.v);
  CHECK(reinterpret_cast<std::uintptr_t>(device->arena()) % 64 == 0);
  REQUIRE(device->fill(0, 64, 0xff).ok());
  const std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}};
  REQUIRE(device->write(8, bytes).ok());
  std::vector<std::byte> back(4);
  REQUIRE(device->read(7, back).ok());
  CHECK(back ==
        std::vector<std::byte>{std::byte{0xff}, std::byte{1}, std::byte{2}, std::byte{0xff}});
}

TEST_CASE("an op that throws fails the run, and what is behind it does not begin",
          "[backends][reference]") {
  const Program program = idle_program(2, {Stream::Compute});
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  device->begin_step({});
  bool ran = false;
  REQUIRE(device
              ->enqueue_task({0}, Stream::Compute,
                             [](OpTime&) -> bool { throw std::runtime_error("no luck"); })
              .ok());
  REQUIRE(device->enqueue_task({1}, Stream::Compute, [&](OpTime&) { return ran = true; }).ok());
  const auto result = device->synchronize();
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().kind == ErrorKind::Device);
  CHECK(result.error().message == "%0 failed: no luck");
  CHECK_FALSE(ran);
}

TEST_CASE("to wait for an op that is not enqueued is an error of the reference device",
          "[backends][reference]") {
  const Program program = idle_program(2, {Stream::Compute, Stream::Copy});
  local::Fabric fabric;
  const auto device = make_device(program, fabric);
  device->begin_step({});
  const auto result = device->wait(Stream::Compute, {1});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().kind == ErrorKind::Internal);
  CHECK_THAT(result.error().message, ContainsSubstring("waits for %1, which is not enqueued"));
}

}  // namespace lockstep::reference
