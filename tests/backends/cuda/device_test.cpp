#include <algorithm>
#include <cstring>
#include <random>

#include "backends/cuda/cuda_device.hpp"
#include "core/run/process.hpp"
#include "tests/backends/cuda/fake_gpu.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep::cuda {
namespace {

using test::FakeGpu;

/// Ops on three streams in turn; each appends its number to a list when the GPU runs it.
struct Numbers {
  Program program = testing::program_of("dp", 1);
  std::vector<std::pair<int, int>> edges;
};

Numbers random_program(int ops, std::mt19937& random) {
  constexpr std::array kStreams = {Stream::Compute, Stream::Reduce, Stream::Copy};
  Numbers numbers;
  testing::RoleBuilder role;
  const BufferId buffer = role.buffer(BufferKind::Workspace, DType::I32, 16);
  for (int i = 0; i < ops; ++i) {
    std::vector<OpId> after;
    if (i >= 3) numbers.edges.emplace_back(i - 3, i);
    for (std::uint64_t w = random() % 3; w > 0 && i > 0; --w) {
      const int before = static_cast<int>(random() % static_cast<unsigned>(i));
      if (before % 3 == i % 3) continue;
      after.push_back({before});
      numbers.edges.emplace_back(before, i);
    }
    role.op(OpKind::HostToDevice, kStreams[to_size(i) % 3], 0, {buffer}, after);
  }
  numbers.program.roles.push_back(role.finish({0}));
  return numbers;
}

std::unique_ptr<CudaDevice> make_device(const Program& program, Driver& gpu, Node& node) {
  auto device = CudaDevice::create(program, 0, gpu, node);
  if (!device) FAIL(to_string(device.error()));
  return std::move(*device);
}

}  // namespace

TEST_CASE("a step launched as a graph keeps every edge of its program", "[backends][cuda]") {
  std::mt19937 random(4);
  constexpr int kOps = 60;
  for (unsigned round = 0; round < 20; ++round) {
    const Numbers numbers = random_program(kOps, random);
    const Role& role = numbers.program.roles[0];
    FakeGpu gpu(round);
    SoleProcess process;
    Node node(gpu, process);
    const auto device = make_device(numbers.program, gpu, node);
    REQUIRE(device->use_graphs().ok());
    std::vector<int> ran;
    for (int step = 0; step < 5;
         ++step) {  // issued, recorded, launched, issued and timed, launched
      ran.clear();
      int issued = 0;
      device->begin_step({step, 0, step == 3});
      for (int i = 0; i < kOps; ++i) {
        const Op& op = role.op({i});
        for (const OpId before : role.after_of(op)) REQUIRE(device->wait(op.stream, before).ok());
        REQUIRE(device
                    ->enqueue_work({i}, op.stream,
                                   [&, i, stream = op.stream] {
                                     ++issued;
                                     return gpu.run_on_host(device->handle(stream),
                                                            [&ran, i] { ran.push_back(i); });
                                   })
                    .ok());
      }
      REQUIRE(device->synchronize().ok());
      CHECK(issued == (step == 2 || step == 4 ? 0 : kOps));
      REQUIRE(ran.size() == kOps);
      for (const auto& [before, after] : numbers.edges) {
        CHECK(std::find(ran.begin(), ran.end(), before) < std::find(ran.begin(), ran.end(), after));
      }
    }
  }
}

TEST_CASE("what fails while a step is recorded or launched ends the run", "[backends][cuda]") {
  std::mt19937 random(4);
  const Numbers numbers = random_program(6, random);
  for (const std::string call : {"begin_capture", "end_capture", "launch graph"}) {
    INFO(call);
    FakeGpu gpu;
    {
      SoleProcess process;
      Node node(gpu, process);
      const auto device = make_device(numbers.program, gpu, node);
      REQUIRE(device->use_graphs().ok());
      gpu.failing = call;
      device->begin_step({0, 0, false});
      REQUIRE(device->synchronize().ok());
      device->begin_step({1, 0, false});
      const auto failed = device->synchronize();
      REQUIRE_FALSE(failed.ok());
      CHECK_THAT(failed.error().message, ContainsSubstring(call + " failed"));
    }
    CHECK(gpu.alive.empty());
  }
}

TEST_CASE("every edge of a program is kept, on any timing of the GPU", "[backends][cuda]") {
  std::mt19937 random(3);
  constexpr int kOps = 60;
  for (unsigned round = 0; round < 20; ++round) {
    const Numbers numbers = random_program(kOps, random);
    const Role& role = numbers.program.roles[0];
    FakeGpu gpu(round);
    SoleProcess process;
    Node node(gpu, process);
    const auto device = make_device(numbers.program, gpu, node);
    for (int step = 0; step < 2; ++step) {
      device->begin_step({step, 0, step == 1});
      for (int i = 0; i < kOps; ++i) {
        const Op& op = role.op({i});
        for (const OpId before : role.after_of(op)) REQUIRE(device->wait(op.stream, before).ok());
        REQUIRE(device
                    ->enqueue_work({i}, op.stream,
                                   [&, stream = op.stream] {
                                     return gpu.fill(device->handle(stream), device->arena(), 0, 4);
                                   })
                    .ok());
      }
      const auto times = device->synchronize();
      REQUIRE(times.ok());
      REQUIRE(times->size() == (step == 1 ? kOps : 0));
      if (step == 0) continue;
      for (int i = 0; i < kOps; ++i) {
        CHECK((*times)[i].op.v == i);
        CHECK((*times)[i].begin < (*times)[i].end);
      }
      for (const auto& [before, after] : numbers.edges) {
        CHECK((*times)[before].end < (*times)[after].begin);
      }
    }
  }
}

TEST_CASE("a step that is not timed makes and records no timing events", "[backends][cuda]") {
  std::mt19937 random(5);
  const Numbers numbers = random_program(30, random);
  const Role& role = numbers.program.roles[0];
  FakeGpu gpu;
  SoleProcess process;
  Node node(gpu, process);
  const auto device = make_device(numbers.program, gpu, node);
  std::set<std::int32_t> waited;  // ops that another stream waits for
  for (const Op& op : role.ops) {
    for (const OpId before : role.after_of(op)) waited.insert(before.v);
  }
  CHECK(std::count(gpu.log.begin(), gpu.log.end(), "create_event") == std::ssize(waited));
  gpu.log.clear();
  device->begin_step({0, 0, false});
  std::vector<std::int32_t> host(16);
  for (int i = 0; i < 30; ++i) {
    const Op& op = role.op({i});
    for (const OpId before : role.after_of(op)) REQUIRE(device->wait(op.stream, before).ok());
    REQUIRE(device->enqueue_copy({i}, op, device->arena(), host.data(), 64).ok());
  }
  REQUIRE(device->synchronize().ok());
  CHECK(std::count(gpu.log.begin(), gpu.log.end(), "record") == std::ssize(waited));
  CHECK(std::count(gpu.log.begin(), gpu.log.end(), "create_event") == 0);
}

TEST_CASE("nothing is allocated in a step, and no event is made while a timed one is issued",
          "[backends][cuda]") {
  std::mt19937 random(5);
  const Numbers numbers = random_program(30, random);
  const Role& role = numbers.program.roles[0];
  FakeGpu gpu;
  SoleProcess process;
  Node node(gpu, process);
  const auto device = make_device(numbers.program, gpu, node);
  gpu.log.clear();
  for (int step = 0; step < 2; ++step) {
    device->begin_step({step, 0, step == 1});
    const auto issuing = std::ssize(gpu.log);
    std::vector<std::int32_t> host(16);
    for (int i = 0; i < 30; ++i) {
      const Op& op = role.op({i});
      for (const OpId before : role.after_of(op)) REQUIRE(device->wait(op.stream, before).ok());
      REQUIRE(device->enqueue_copy({i}, op, device->arena(), host.data(), 64).ok());
    }
    CHECK(std::count(gpu.log.begin() + issuing, gpu.log.end(), "create_event") == 0);
    const auto times = device->synchronize();
    REQUIRE(times.ok());
    CHECK(times->size() == (step == 1 ? 30 : 0));
  }
  CHECK(std::count(gpu.log.begin(), gpu.log.end(), "allocate") == 0);
  // A copy of another size than the program's would leave its pinned memory.
  std::vector<std::int32_t> host(17);
  device->begin_step({2, 0, false});
  const auto wrong = device->enqueue_copy({0}, role.op({0}), device->arena(), host.data(), 68);
  REQUIRE_FALSE(wrong.ok());
  CHECK_THAT(wrong.error().message, ContainsSubstring("copies 68 B and not 64"));
  CHECK(device->synchronize().ok());
}

TEST_CASE("host data is read when it is given and written before the step ends",
          "[backends][cuda]") {
  Program program = testing::program_of("dp", 1);
  testing::RoleBuilder role;
  const BufferId buffer = role.buffer(BufferKind::Input, DType::I32, 4);
  const OpId in = role.copy(OpKind::HostToDevice, HostData::Tokens, buffer);
  const OpId out = role.copy(OpKind::DeviceToHost, HostData::Loss, buffer, {in});
  program.roles.push_back(role.finish({0}));
  FakeGpu gpu;
  SoleProcess process;
  Node node(gpu, process);
  const auto device = make_device(program, gpu, node);
  for (int step = 0; step < 3; ++step) {
    std::vector<std::int32_t> given = {1, 2, 3, 4 + step}, got(4);
    device->begin_step({step, 0, false});
    REQUIRE(
        device->enqueue_copy(in, program.roles[0].op(in), device->arena(), given.data(), 16).ok());
    const std::vector<std::int32_t> kept = given;
    std::fill(given.begin(), given.end(), -1);  // the copy has its own
    REQUIRE(
        device->enqueue_copy(out, program.roles[0].op(out), device->arena(), got.data(), 16).ok());
    REQUIRE(device->synchronize().ok());
    CHECK(got == kept);
  }
}

TEST_CASE("the arena is one allocation of the planned size, reached from the host",
          "[backends][cuda]") {
  Program program = testing::program_of("dp", 1);
  testing::RoleBuilder role;
  role.buffer(BufferKind::Param, DType::F32, 3 << 20, true);  // more than one piece of transit
  program.roles.push_back(role.finish({0}));
  FakeGpu gpu;
  SoleProcess process;
  {
    Node node(gpu, process);
    const auto device = make_device(program, gpu, node);
    CHECK(device->arena_bytes() == program.roles[0].arena.v);
    std::vector<std::byte> bytes(to_size(program.roles[0].arena.v)), back(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
    REQUIRE(device->write(0, bytes).ok());
    REQUIRE(device->fill(8, 4, 0xab).ok());
    REQUIRE(device->read(0, back).ok());
    for (std::size_t i = 8; i < 12; ++i) bytes[i] = std::byte{0xab};
    CHECK(back == bytes);
  }
  CHECK(gpu.alive.empty());
}

TEST_CASE("what fails while a device is made says which rank and releases everything",
          "[backends][cuda]") {
  std::mt19937 random(9);
  const Numbers numbers = random_program(20, random);
  for (const char* call : {"allocate", "create_stream", "create_event"}) {
    for (int after = 0; after < 2; ++after) {
      INFO(call << " " << after);
      FakeGpu gpu;
      gpu.failing = call;
      gpu.failing_after = after;
      SoleProcess process;
      {
        Node node(gpu, process);
        const auto device = CudaDevice::create(numbers.program, 0, gpu, node);
        REQUIRE_FALSE(device.ok());
        CHECK_THAT(device.error().message, ContainsSubstring("rank 0"));
        CHECK_THAT(device.error().message, ContainsSubstring(call));
      }
      CHECK(gpu.alive.empty());
    }
  }
  FakeGpu small;
  small.capacity = 16;
  SoleProcess process;
  Node node(small, process);
  const auto device = CudaDevice::create(numbers.program, 0, small, node);
  REQUIRE_FALSE(device.ok());
  CHECK(device.error().kind == ErrorKind::OutOfMemory);
}

TEST_CASE("a driver call that fails in a step ends the step with its error", "[backends][cuda]") {
  std::mt19937 random(13);
  const Numbers numbers = random_program(20, random);
  const Role& role = numbers.program.roles[0];
  for (const char* call : {"copy", "record", "wait", "synchronize", "elapsed"}) {
    INFO(call);
    FakeGpu gpu;
    SoleProcess process;
    Node node(gpu, process);
    const auto device = make_device(numbers.program, gpu, node);
    gpu.failing = call;
    gpu.failing_after = 2;
    device->begin_step({});
    std::vector<std::int32_t> host(16);
    for (int i = 0; i < 20; ++i) {
      const Op& op = role.op({i});
      for (const OpId before : role.after_of(op)) REQUIRE(device->wait(op.stream, before).ok());
      REQUIRE(device->enqueue_copy({i}, op, device->arena(), host.data(), 64).ok());
    }
    const auto times = device->synchronize();
    REQUIRE_FALSE(times.ok());
    CHECK(times.error().kind == ErrorKind::Device);
    CHECK_THAT(times.error().message, ContainsSubstring(call));
    gpu.failing.clear();
  }
}

TEST_CASE("a wait that the program does not declare is our bug and said so", "[backends][cuda]") {
  Program program = testing::program_of("dp", 1);
  testing::RoleBuilder role;
  const BufferId buffer = role.buffer(BufferKind::Input, DType::I32, 4);
  role.copy(OpKind::HostToDevice, HostData::Tokens, buffer);
  program.roles.push_back(role.finish({0}));
  FakeGpu gpu;
  SoleProcess process;
  Node node(gpu, process);
  const auto device = make_device(program, gpu, node);
  device->begin_step({});
  const auto waits = device->wait(Stream::Compute, {0});
  REQUIRE_FALSE(waits.ok());
  CHECK(waits.error().kind == ErrorKind::Internal);
}

}  // namespace lockstep::cuda
