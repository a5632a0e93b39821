#include "backends/cuda/local_communicator.hpp"

#include <cmath>
#include <cstring>
#include <deque>
#include <random>

#include "core/run/process.hpp"
#include "tests/backends/cuda/fake_gpu.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep::cuda {
namespace {

using test::FakeGpu;

/// All ranks of a program on one fake GPU, driven from one thread.
class Ranks {
 public:
  explicit Ranks(const Program& program, unsigned seed = 1)
      : program_(program), gpu_(seed), node_(gpu_, process_) {
    for (Rank r = 0; r < program.mesh.world_size(); ++r) {
      auto device = CudaDevice::create(program, r, gpu_, node_);
      REQUIRE(device.ok());
      devices_.push_back(std::move(*device));
      communicators_.push_back(std::make_unique<LocalCommunicator>(program, r, *devices_.back()));
      devices_.back()->begin_step({});
    }
  }
  CudaDevice& device(Rank r) { return *devices_[r]; }
  LocalCommunicator& communicator(Rank r) { return *communicators_[r]; }
  FakeGpu& gpu() { return gpu_; }

  template <class T>
  T* data(Rank r, BufferId buffer) {
    return reinterpret_cast<T*>(device(r).arena() + arena_offset(program_, r, buffer));
  }
  Result<void> enqueue(Rank r, OpId id) {
    const Role& role = program_.role_of(r);
    const Op& op = role.op(id);
    for (const OpId before : role.after_of(op)) REQUIRE(device(r).wait(op.stream, before).ok());
    std::vector<std::byte*>& args = args_.emplace_back();
    std::vector<std::int64_t> bytes;
    for (const BufferId arg : role.args_of(op)) {
      args.push_back(device(r).arena() + arena_offset(program_, r, arg));
      bytes.push_back(role.buffer(arg).bytes.v);
    }
    return communicator(r).enqueue(id, op, args, bytes, role.buffer(role.args_of(op)[0]).dtype);
  }
  /// Lets ranks enqueue their ops in a random order of ranks.
  void run_all(std::mt19937& random) {
    std::vector<std::size_t> next(devices_.size(), 0);
    for (std::size_t left = devices_.size(); left > 0;) {
      const std::size_t r = random() % devices_.size();
      const Role& role = program_.role_of(static_cast<Rank>(r));
      if (next[r] == role.ops.size()) continue;
      REQUIRE(enqueue(static_cast<Rank>(r), {static_cast<std::int32_t>(next[r])}).ok());
      if (++next[r] == role.ops.size()) --left;
    }
    for (auto& device : devices_) {
      const auto times = device->synchronize();
      if (!times) FAIL(to_string(times.error()));
      for (const OpTime& time : *times) {
        CHECK(time.begin <= time.active);
        CHECK(time.active <= time.end);
      }
    }
  }

 private:
  const Program& program_;
  FakeGpu gpu_;
  SoleProcess process_;
  Node node_;
  std::vector<std::unique_ptr<CudaDevice>> devices_;
  std::vector<std::unique_ptr<LocalCommunicator>> communicators_;
  std::deque<std::vector<std::byte*>> args_;
};

Program collective_program(int ranks, OpKind kind, const std::vector<std::int64_t>& elements) {
  Program program = testing::program_of("dp", ranks);
  testing::RoleBuilder role;
  std::vector<BufferId> args;
  for (const std::int64_t n : elements) {
    args.push_back(role.buffer(BufferKind::Comm, DType::F32, n));
  }
  role.op(kind, Stream::Reduce, 0, args);
  program.roles.push_back(role.finish(testing::all_ranks(program)));
  return program;
}

using Floats = std::vector<float>;

/// Values whose sum depends on the order of addition.
std::vector<Floats> random_values(int ranks, std::int64_t n, std::mt19937& random) {
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::vector<Floats> values(to_size(ranks), Floats(to_size(n)));
  for (Floats& row : values) {
    for (float& v : row) {
      v = static_cast<float>(std::ldexp(mantissa(random), static_cast<int>(random() % 20)));
    }
  }
  return values;
}

Floats sum_in_order(const std::vector<Floats>& values) {
  Floats sum = values[0];
  for (std::size_t r = 1; r < values.size(); ++r) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[r][i];
  }
  return sum;
}

}  // namespace

TEST_CASE("collectives of logical ranks give the sums in rank order and the right pieces",
          "[backends][cuda]") {
  std::mt19937 random(7);
  for (const int ranks : {1, 2, 3, 4, 7, 16}) {
    for (const std::int64_t part : {0, 1, 5, 64}) {
      INFO(ranks << " ranks, parts of " << part);
      const std::int64_t full = ranks * part;
      const auto values = random_values(ranks, full, random);
      const Floats sum = sum_in_order(values);
      const BufferId first{0}, second{1};
      {
        const Program program = collective_program(ranks, OpKind::AllReduce, {full});
        Ranks world(program, random());
        for (Rank r = 0; r < ranks; ++r) {
          std::copy(values[r].begin(), values[r].end(), world.data<float>(r, first));
        }
        world.run_all(random);
        for (Rank r = 0; r < ranks; ++r) {
          CHECK(std::equal(sum.begin(), sum.end(), world.data<float>(r, first)));
        }
      }
      {
        const Program program = collective_program(ranks, OpKind::ReduceScatter, {full, part});
        Ranks world(program, random());
        for (Rank r = 0; r < ranks; ++r) {
          std::copy(values[r].begin(), values[r].end(), world.data<float>(r, first));
        }
        world.run_all(random);
        for (Rank r = 0; r < ranks; ++r) {
          CHECK(std::equal(sum.begin() + r * part, sum.begin() + (r + 1) * part,
                           world.data<float>(r, second)));
        }
      }
      {
        const Program program = collective_program(ranks, OpKind::AllGather, {part, full});
        Ranks world(program, random());
        for (Rank r = 0; r < ranks; ++r) {
          std::copy_n(values[r].begin(), part, world.data<float>(r, first));
        }
        world.run_all(random);
        for (Rank r = 0; r < ranks; ++r) {
          for (Rank from = 0; from < ranks; ++from) {
            CHECK(std::equal(values[from].begin(), values[from].begin() + part,
                             world.data<float>(r, second) + from * part));
          }
        }
      }
      {
        const Program program = collective_program(ranks, OpKind::AllToAll, {full, full});
        Ranks world(program, random());
        for (Rank r = 0; r < ranks; ++r) {
          std::copy(values[r].begin(), values[r].end(), world.data<float>(r, first));
        }
        world.run_all(random);
        for (Rank r = 0; r < ranks; ++r) {
          for (Rank from = 0; from < ranks; ++from) {
            const auto piece = values[from].begin() + r * part;
            CHECK(std::equal(piece, piece + part, world.data<float>(r, second) + from * part));
          }
        }
      }
      {
        const Program program = collective_program(ranks, OpKind::Rotate, {full, full});
        Ranks world(program, random());
        for (Rank r = 0; r < ranks; ++r) {
          std::copy(values[r].begin(), values[r].end(), world.data<float>(r, first));
        }
        world.run_all(random);
        for (Rank r = 0; r < ranks; ++r) {
          const auto& before = values[(r + ranks - 1) % ranks];
          CHECK(std::equal(before.begin(), before.end(), world.data<float>(r, second)));
        }
      }
      {
        const Program program = collective_program(ranks, OpKind::Broadcast, {full});
        Ranks world(program, random());
        for (Rank r = 0; r < ranks; ++r) {
          std::copy(values[r].begin(), values[r].end(), world.data<float>(r, first));
        }
        world.run_all(random);
        for (Rank r = 0; r < ranks; ++r) {
          CHECK(std::equal(values[0].begin(), values[0].end(), world.data<float>(r, first)));
        }
      }
    }
  }
}

TEST_CASE("two ranks that send first and receive later never wait for each other",
          "[backends][cuda]") {
  // Each rank sends to the other and then receives from it. A host that waited in the send would
  // hang.
  Program program;
  program.mesh.dims = {{"pp", 2}};
  program.role_of_rank = {RoleId{0}, RoleId{1}};
  for (int r = 0; r < 2; ++r) {
    testing::RoleBuilder role;
    const BufferId out = role.buffer(BufferKind::Comm, DType::F32, 8);
    const BufferId in = role.buffer(BufferKind::Comm, DType::F32, 8);
    const bool up = r == 0;
    role.op(OpKind::Send, up ? Stream::SendForward : Stream::SendBackward, 1 - r, {out});
    role.op(OpKind::Recv, up ? Stream::RecvBackward : Stream::RecvForward, 1 - r, {in});
    program.roles.push_back(role.finish({r}));
  }
  std::mt19937 random(1);
  for (unsigned seed = 0; seed < 10; ++seed) {
    Ranks world(program, seed);
    for (Rank r = 0; r < 2; ++r) {
      for (int i = 0; i < 8; ++i) world.data<float>(r, {0})[i] = static_cast<float>(10 * r + i);
    }
    world.run_all(random);
    for (Rank r = 0; r < 2; ++r) {
      for (int i = 0; i < 8; ++i) {
        CHECK(world.data<float>(r, {1})[i] == static_cast<float>(10 * (1 - r) + i));
      }
    }
  }
}

TEST_CASE("work behind a transfer waits for its members, work on other streams does not",
          "[backends][cuda]") {
  Program program = testing::program_of("dp", 2);
  testing::RoleBuilder role;
  const BufferId a = role.buffer(BufferKind::Comm, DType::F32, 4);
  const BufferId b = role.buffer(BufferKind::Comm, DType::F32, 4);
  const OpId reduce = role.op(OpKind::AllReduce, Stream::Reduce, 0, {a});
  role.op(OpKind::DeviceToHost, Stream::Copy, 0, {a}, {reduce});
  role.op(OpKind::HostToDevice, Stream::Compute, 0, {b});
  program.roles.push_back(role.finish({0, 1}));
  Ranks world(program);
  const auto& role0 = program.role_of(0);
  REQUIRE(world.enqueue(0, reduce).ok());
  REQUIRE(world.device(0).wait(Stream::Copy, reduce).ok());
  Floats got(4), given = {1, 2, 3, 4};
  REQUIRE(world.device(0)
              .enqueue_copy({1}, role0.op({1}), world.device(0).arena(), got.data(), 16)
              .ok());
  world.gpu().log.clear();
  REQUIRE(world.device(0)
              .enqueue_copy({2}, role0.op({2}), world.device(0).arena() + 64, given.data(), 16)
              .ok());
  CHECK(std::count(world.gpu().log.begin(), world.gpu().log.end(), "copy") == 1);
  REQUIRE(world.enqueue(1, reduce).ok());  // the last member: now both go on
  CHECK(std::count(world.gpu().log.begin(), world.gpu().log.end(), "add") == 1);
  CHECK(std::count(world.gpu().log.begin(), world.gpu().log.end(), "copy") == 2);
  CHECK(world.device(0).synchronize().ok());
  CHECK(world.device(1).synchronize().ok());
}

TEST_CASE("members that mean different transfers fail with the ranks and ops", "[backends][cuda]") {
  Program program = testing::program_of("dp", 2);
  program.role_of_rank = {RoleId{0}, RoleId{1}};
  for (int r = 0; r < 2; ++r) {
    testing::RoleBuilder role;
    const BufferId a = role.buffer(BufferKind::Comm, DType::F32, 4 + r);
    role.op(OpKind::AllReduce, Stream::Reduce, 0, {a});
    program.roles.push_back(role.finish({r}));
  }
  Ranks world(program);
  REQUIRE(world.enqueue(0, {0}).ok());
  REQUIRE(world.enqueue(1, {0}).ok());
  for (Rank r = 0; r < 2; ++r) {
    const auto times = world.device(r).synchronize();
    REQUIRE_FALSE(times.ok());
    CHECK(times.error().kind == ErrorKind::Internal);
    CHECK_THAT(times.error().message, ContainsSubstring("rank 1 %0 all_reduce 20 B"));
  }
}

TEST_CASE("abort lets go of a rank whose peers never come", "[backends][cuda]") {
  const Program program = collective_program(2, OpKind::AllReduce, {4});
  Ranks world(program);
  REQUIRE(world.enqueue(0, {0}).ok());
  world.communicator(1).abort(Error{ErrorKind::Device, "rank 1 is gone", std::nullopt});
  const auto times = world.device(0).synchronize();
  REQUIRE_FALSE(times.ok());
  CHECK(times.error().message == "rank 1 is gone");
}

}  // namespace lockstep::cuda
