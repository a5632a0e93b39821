// Transfers of every backend in which ranks are threads, or processes, on this machine: the same
// tests for each of the worlds.
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/base/bfloat16.hpp"
#include "tests/backends/worlds.hpp"
#include "tests/catch.hpp"
#include "tests/core/run/tiny_program.hpp"

namespace lockstep {
namespace {

using testing::Worlds;

/// Devices and communicators of all ranks of a program.
template <class World>
class Ranks {
 public:
  explicit Ranks(const Program& program) : program_(program), world_(program.mesh.world_size()) {
    for (Rank r = 0; r < program.mesh.world_size(); ++r) {
      auto device = World::device(program, r, world_.context(r));
      REQUIRE(device.ok());
      devices_.push_back(std::move(*device));
      communicators_.push_back(world_.communicator(program, r, *devices_.back()));
    }
  }
  using Device = typename World::Device;
  Device& device(Rank r) { return *devices_[r]; }
  Communicator& communicator(Rank r) { return *communicators_[r]; }

  template <class T>
  T* data(Rank r, BufferId buffer) {
    return reinterpret_cast<T*>(device(r).arena() + program_.role_of(r).arena_offset(buffer));
  }
  /// Enqueues op `id` of rank r; a delay runs before it on the same stream.
  Result<void> enqueue(Rank r, OpId id, std::chrono::microseconds delay = {}) {
    const Role& role = program_.role_of(r);
    const Op& op = role.op(id);
    std::vector<std::byte*>& args = args_.emplace_back();
    std::vector<std::int64_t> bytes;
    for (const BufferId arg : role.args_of(op)) {
      args.push_back(device(r).arena() + role.arena_offset(arg));
      bytes.push_back(role.buffer(arg).bytes.v);
    }
    if (delay.count() > 0) {
      REQUIRE(World::enqueue_delay(device(r), id, op.stream, delay).ok());
    }
    return communicator(r).enqueue(id, op, args, bytes, role.buffer(role.args_of(op)[0]).dtype);
  }
  /// Runs all ops of all ranks, in order, with random delays. All ranks must succeed.
  std::vector<std::vector<OpTime>> run_all(std::mt19937& random) {
    for (Rank r = 0; r < program_.mesh.world_size(); ++r) {
      device(r).begin_step({});
      for (std::size_t i = 0; i < program_.role_of(r).ops.size(); ++i) {
        const std::chrono::microseconds delay{random() % 4 == 0 ? random() % 500 : 0};
        REQUIRE(enqueue(r, {static_cast<std::int32_t>(i)}, delay).ok());
      }
    }
    std::vector<std::vector<OpTime>> times;
    for (auto& rank : synchronize()) {
      REQUIRE(rank.ok());
      times.push_back(std::move(*rank));
    }
    return times;
  }
  /// Synchronizes every rank on a thread of its own, as the executor does.
  std::vector<Result<std::vector<OpTime>>> synchronize() {
    std::vector<std::future<Result<std::vector<OpTime>>>> ranks;
    for (auto& device : devices_) {
      ranks.push_back(std::async(std::launch::async, [&] { return device->synchronize(); }));
    }
    std::vector<Result<std::vector<OpTime>>> results;
    for (auto& rank : ranks) results.push_back(rank.get());
    return results;
  }

 private:
  const Program& program_;
  World world_;
  std::deque<std::vector<std::byte*>> args_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<Device>> devices_;  // their threads use all of the above
};

/// One collective on buffers of the given sizes, `times` times on `stream`.
Program collective_program(int ranks, OpKind kind, DType dtype,
                           const std::vector<std::int64_t>& elements, int times = 1) {
  Program program = testing::program_of("dp", ranks);
  testing::RoleBuilder role;
  std::vector<BufferId> args;
  for (const std::int64_t n : elements) args.push_back(role.buffer(BufferKind::Comm, dtype, n));
  for (int i = 0; i < times; ++i) role.op(kind, Stream::Reduce, 0, args);
  program.roles.push_back(role.finish(testing::all_ranks(program)));
  return program;
}

/// Values whose sum depends on the order of addition.
template <class T>
std::vector<std::vector<T>> random_values(int ranks, std::int64_t n, std::mt19937& random) {
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::vector<std::vector<T>> values(to_size(ranks), std::vector<T>(to_size(n)));
  for (auto& row : values) {
    for (T& v : row) {
      const double value = std::ldexp(mantissa(random), int(random() % 20));
      if constexpr (std::is_same_v<T, double>) {
        v = value;
      } else {
        v = T(static_cast<float>(value));
      }
    }
  }
  return values;
}

template <class T>
std::vector<T> serial_sum(const std::vector<std::vector<T>>& values) {
  std::vector<T> sum = values[0];
  for (std::size_t r = 1; r < values.size(); ++r) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[r][i];
  }
  return sum;
}

/// The sums in rank order, taken in float32 and rounded once.
std::vector<bfloat16> serial_sum(const std::vector<std::vector<bfloat16>>& values) {
  std::vector<bfloat16> sums = values[0];
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float sum = 0;
    for (const auto& row : values) sum += static_cast<float>(row[i]);
    sums[i] = bfloat16(sum);
  }
  return sums;
}

template <class T>
void fill(T* to, const std::vector<T>& from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
}

template <class T>
bool bit_equal(const T* a, const T* b, std::int64_t n) {
  return n == 0 || std::memcmp(a, b, to_size(n) * sizeof(T)) == 0;
}

template <class World, class T>
void check_sums(DType dtype, std::mt19937& random) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    for (const std::int64_t shard : {0, 1, 17, 1000, 5003}) {
      const std::int64_t full = shard * ranks;
      const auto values = random_values<T>(ranks, full, random);
      const std::vector<T> expected = serial_sum(values);

      const Program scatter =
          collective_program(ranks, OpKind::ReduceScatter, dtype, {full, shard});
      Ranks<World> scattered(scatter);
      for (Rank r = 0; r < ranks; ++r) fill(scattered.template data<T>(r, {0}), values[r]);
      scattered.run_all(random);
      for (Rank r = 0; r < ranks; ++r) {
        CHECK(bit_equal(scattered.template data<T>(r, {1}), expected.data() + r * shard, shard));
        CHECK(bit_equal(scattered.template data<T>(r, {0}), values[r].data(), full));
      }

      const Program reduce = collective_program(ranks, OpKind::AllReduce, dtype, {full});
      Ranks<World> reduced(reduce);
      for (Rank r = 0; r < ranks; ++r) fill(reduced.template data<T>(r, {0}), values[r]);
      reduced.run_all(random);
      for (Rank r = 0; r < ranks; ++r) {
        CHECK(bit_equal(reduced.template data<T>(r, {0}), expected.data(), full));
      }
    }
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE(
    "all-reduce and reduce-scatter equal the serial sum in rank order bit for bit", "[backends]",
    Worlds) {
  std::mt19937 random(1);
  check_sums<TestType, float>(DType::F32, random);
  check_sums<TestType, double>(DType::F64, random);
  check_sums<TestType, bfloat16>(DType::BF16, random);
}

TEMPLATE_LIST_TEST_CASE("all-reduce works on sizes that the group does not divide", "[backends]",
                        Worlds) {
  std::mt19937 random(2);
  for (const int ranks : {2, 3, 5, 7, 8}) {
    for (const std::int64_t n : {0, 1, 2, 31, 33, 65, 4099}) {
      const auto values = random_values<float>(ranks, n, random);
      const std::vector<float> expected = serial_sum(values);
      const Program program = collective_program(ranks, OpKind::AllReduce, DType::F32, {n});
      Ranks<TestType> all(program);
      for (Rank r = 0; r < ranks; ++r) fill(all.template data<float>(r, {0}), values[r]);
      all.run_all(random);
      for (Rank r = 0; r < ranks; ++r) {
        CHECK(bit_equal(all.template data<float>(r, {0}), expected.data(), n));
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("gather, all-to-all and broadcast put every element in its place",
                        "[backends]", Worlds) {
  std::mt19937 random(3);
  // Element i of rank r is 1,000,000 r + i.
  const auto value = [](Rank r, std::int64_t i) {
    return static_cast<std::int32_t>(1000000 * r + i);
  };
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const std::int64_t shard : {0, 1, 7, 1025}) {
      const std::int64_t full = shard * ranks;
      const Program gather =
          collective_program(ranks, OpKind::AllGather, DType::I32, {shard, full});
      const Program exchange =
          collective_program(ranks, OpKind::AllToAll, DType::I32, {full, full});
      Program broadcast = collective_program(ranks, OpKind::Broadcast, DType::I32, {full});
      const int root = ranks / 2;
      for (Role& role : broadcast.roles) {
        for (Op& op : role.ops) op.root = static_cast<std::int16_t>(root);
      }
      Ranks<TestType> gathered(gather), exchanged(exchange), told(broadcast);
      for (Rank r = 0; r < ranks; ++r) {
        for (std::int64_t i = 0; i < full; ++i) {
          if (i < shard) gathered.template data<std::int32_t>(r, {0})[i] = value(r, i);
          exchanged.template data<std::int32_t>(r, {0})[i] = value(r, i);
          told.template data<std::int32_t>(r, {0})[i] = value(r, i);
        }
      }
      gathered.run_all(random);
      exchanged.run_all(random);
      told.run_all(random);
      bool right = true;
      for (Rank r = 0; r < ranks; ++r) {
        for (Rank from = 0; from < ranks; ++from) {
          for (std::int64_t i = 0; i < shard; ++i) {
            const std::int64_t at = from * shard + i;
            right &= gathered.template data<std::int32_t>(r, {1})[at] == value(from, i);
            right &=
                exchanged.template data<std::int32_t>(r, {1})[at] == value(from, r * shard + i);
            right &= told.template data<std::int32_t>(r, {0})[at] == value(root, at);
          }
        }
      }
      CHECK(right);
    }
  }
}

namespace {

/// An exchange of rows of two numbers, of which there are counts for `parts` parts of each rank.
Program rows_program(int ranks, std::int64_t parts, std::int64_t given, std::int64_t room) {
  Program program = collective_program(ranks, OpKind::AllToAllRows, DType::I32,
                                       {2 * given, 2 * room, parts * ranks, parts * ranks});
  for (Role& role : program.roles) {
    for (Op& op : role.ops) {
      REQUIRE(role.expect_rows(op, {static_cast<std::int32_t>(given), 8}));
    }
  }
  return program;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("an exchange of rows moves as many as counts say, part by part",
                        "[backends]", Worlds) {
  std::mt19937 random(4);
  constexpr std::int64_t kParts = 2, kGiven = 40;
  for (const int ranks : {1, 2, 3, 5}) {
    const Program program = rows_program(ranks, kParts, kGiven, kGiven * ranks);
    Ranks<TestType> all(program);
    std::vector<std::vector<std::int32_t>> goes(to_size(ranks));  // by rank and part
    for (Rank r = 0; r < ranks; ++r) {
      for (std::int64_t part = 0; part < kParts * ranks; ++part) {
        goes[to_size(r)].push_back(static_cast<std::int32_t>(random() % 5));  // also none
      }
    }
    for (Rank r = 0; r < ranks; ++r) {
      auto* const own = all.template data<std::int32_t>(r, {0});
      for (std::int32_t i = 0; i < 2 * kGiven; ++i) own[i] = 1000000 * r + i;
      for (std::int64_t part = 0; part < kParts * ranks; ++part) {
        const std::int64_t from = part / kParts, of = r * kParts + part % kParts;
        all.template data<std::int32_t>(r, {2})[part] = goes[to_size(r)][to_size(part)];
        all.template data<std::int32_t>(r, {3})[part] = goes[to_size(from)][to_size(of)];
      }
    }
    all.run_all(random);
    bool right = true;
    for (Rank r = 0; r < ranks; ++r) {
      std::int64_t at = 0;
      for (Rank from = 0; from < ranks; ++from) {
        std::int64_t row = 0;
        for (std::int64_t part = 0; part < kParts * ranks; ++part) {
          const std::int32_t count = goes[to_size(from)][to_size(part)];
          for (std::int64_t i = 2 * row; part / kParts == r && i < 2 * (row + count); ++i) {
            right &= all.template data<std::int32_t>(r, {1})[at++] == 1000000 * from + i;
          }
          row += count;
        }
      }
    }
    CHECK(right);
  }
}

TEMPLATE_LIST_TEST_CASE("counted rows are gathered to places, and sums of them come back",
                        "[backends]", Worlds) {
  std::mt19937 random(5);
  constexpr std::int64_t kParts = 3, kPlaces = 12;
  for (const int ranks : {1, 2, 3, 5}) {
    std::vector<std::int32_t> counts;  // of all ranks; some have none, some fill their places
    for (std::int64_t i = 0; i < kParts * ranks; ++i) {
      counts.push_back(static_cast<std::int32_t>(i / kParts == 1 ? 4 : random() % 4));
    }
    const auto rows = [&](Rank r) {
      const auto begin = counts.begin() + r * kParts;
      return std::accumulate(begin, begin + kParts, std::int64_t{0});
    };
    for (const bool gathers : {true, false}) {
      const std::int64_t all_places = 2 * kPlaces * ranks;
      Program program = collective_program(
          ranks, gathers ? OpKind::AllGatherRows : OpKind::ReduceScatterRows, DType::I32,
          {gathers ? 2 * kPlaces : all_places, gathers ? all_places : 2 * kPlaces, kParts * ranks});
      for (Op& op : program.roles[0].ops) REQUIRE(program.roles[0].expect_rows(op, {6, 8}));
      Ranks<TestType> all(program);
      const auto value = [](Rank r, std::int64_t i) {
        return static_cast<std::int32_t>(1000 * r + i);
      };
      for (Rank r = 0; r < ranks; ++r) {
        auto* const own = all.template data<std::int32_t>(r, {0});
        for (std::int64_t i = 0; i < (gathers ? 2 * kPlaces : all_places); ++i)
          own[i] = value(r, i);
        std::copy(counts.begin(), counts.end(), all.template data<std::int32_t>(r, {2}));
      }
      all.run_all(random);
      bool right = true;
      for (Rank r = 0; r < ranks; ++r) {
        const auto* const made = all.template data<std::int32_t>(r, {1});
        for (Rank from = 0; gathers && from < ranks; ++from) {
          for (std::int64_t i = 0; i < 2 * rows(from); ++i) {
            right &= made[2 * kPlaces * from + i] == value(from, i);
          }
        }
        for (std::int64_t i = 0; !gathers && i < 2 * rows(r); ++i) {
          std::int32_t sum = 0;
          for (Rank from = 0; from < ranks; ++from) sum += value(from, 2 * kPlaces * r + i);
          right &= made[i] == sum;
        }
      }
      CHECK(right);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("rows that have no room end the run, which says how many came to whom",
                        "[backends]", Worlds) {
  const Program program = rows_program(2, 1, 10, 11);
  Ranks<TestType> all(program);
  for (Rank r = 0; r < 2; ++r) {  // both send 6 rows to rank 1, and 4 to rank 0
    const std::int32_t to[2] = {4, 6}, from[2] = {r == 0 ? 4 : 6, r == 0 ? 4 : 6};
    std::memcpy(all.template data<std::int32_t>(r, {2}), to, sizeof to);
    std::memcpy(all.template data<std::int32_t>(r, {3}), from, sizeof from);
    all.device(r).begin_step({});
  }
  for (Rank r = 0; r < 2; ++r) REQUIRE(all.enqueue(r, {0}).ok());
  const auto ended = all.synchronize();
  REQUIRE_FALSE(ended[1].ok());
  CHECK(ended[1].error().kind == ErrorKind::InvalidSpec);
  CHECK_THAT(ended[1].error().message,
             ContainsSubstring("12 rows come to the experts of rank 1, which has places for 11") &&
                 ContainsSubstring("model.expert_rank_capacity_factor must be at least 1.20"));
}

TEMPLATE_LIST_TEST_CASE("all-gather works in place, with the shard inside the full buffer",
                        "[backends]", Worlds) {
  // A role per rank, because the view differs.
  Program program = testing::program_of("dp", 3);
  for (Rank r = 0; r < 3; ++r) {
    testing::RoleBuilder role;
    const BufferId full = role.buffer(BufferKind::Comm, DType::I32, 12);
    role.op(OpKind::AllGather, Stream::Gather, 0, {role.view(full, 4 * r, 4), full});
    program.roles.push_back(role.finish({r}));
    program.role_of_rank[r] = {r};
  }
  Ranks<TestType> ranks(program);
  for (Rank r = 0; r < 3; ++r) {
    for (int i = 0; i < 12; ++i) ranks.template data<std::int32_t>(r, {0})[i] = i / 4 == r ? i : -1;
  }
  std::mt19937 random(4);
  ranks.run_all(random);
  for (Rank r = 0; r < 3; ++r) {
    for (int i = 0; i < 12; ++i) CHECK(ranks.template data<std::int32_t>(r, {0})[i] == i);
  }
}

TEMPLATE_LIST_TEST_CASE("a transfer's active time is when its last member came, on every member",
                        "[backends]", Worlds) {
  const Program program = collective_program(3, OpKind::AllReduce, DType::F32, {8}, 4);
  Ranks<TestType> ranks(program);
  std::mt19937 random(5);
  for (int step = 0; step < 20; ++step) {
    auto times = ranks.run_all(random);
    for (auto& rank : times) {  // leaves out the delays, which are not collectives
      std::vector<OpTime> last;
      for (const OpTime& time : rank) {
        if (!last.empty() && last.back().op == time.op) last.pop_back();
        last.push_back(time);
      }
      rank = std::move(last);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      SimTime latest{};
      for (const auto& rank : times) latest = std::max(latest, rank[i].begin);
      for (const auto& rank : times) {
        CHECK(rank[i].active == times[0][i].active);
        CHECK(rank[i].active >= latest);
        CHECK(rank[i].end >= rank[i].active);
        if (i > 0) CHECK(rank[i].begin >= rank[i - 1].end);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE(
    "messages of both directions and both streams pass in order through pipeline ranks",
    "[backends]", Worlds) {
  // Rank 0 sends four forward messages, rank 1 answers each with a backward one; the receives are
  // posted early.
  constexpr int kMessages = 4;
  Program program = testing::program_of("pp", 2);
  for (Rank r = 0; r < 2; ++r) {
    testing::RoleBuilder role;
    std::vector<BufferId> out, in;
    for (int i = 0; i < kMessages; ++i) {
      out.push_back(role.buffer(BufferKind::Boundary, DType::F32, 5));
      in.push_back(role.buffer(BufferKind::Boundary, DType::F32, 5));
    }
    for (int i = 0; i < kMessages; ++i) {
      role.op(OpKind::Recv, r == 1 ? Stream::RecvForward : Stream::RecvBackward, 1 - r, {in[i]});
    }
    for (int i = 0; i < kMessages; ++i) {
      role.op(OpKind::Send, r == 0 ? Stream::SendForward : Stream::SendBackward, 1 - r, {out[i]});
    }
    program.roles.push_back(role.finish({r}));
    program.role_of_rank[r] = {r};
  }
  Ranks<TestType> ranks(program);
  for (Rank r = 0; r < 2; ++r) {
    for (int i = 0; i < kMessages; ++i) {
      for (int e = 0; e < 5; ++e) {
        ranks.template data<float>(r, {2 * i})[e] = static_cast<float>(100 * r + 10 * i + e);
      }
    }
  }
  std::mt19937 random(6);
  ranks.run_all(random);
  for (Rank r = 0; r < 2; ++r) {
    for (int i = 0; i < kMessages; ++i) {
      for (int e = 0; e < 5; ++e) {
        CHECK(ranks.template data<float>(r, {2 * i + 1})[e] ==
              static_cast<float>(100 * (1 - r) + 10 * i + e));
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("two streams can each have a collective of one group in flight",
                        "[backends]", Worlds) {
  // The gather is enqueued first and delayed on rank 0; the reduce of the other stream overtakes
  // it.
  Program program = testing::program_of("dp", 2);
  testing::RoleBuilder role;
  const BufferId shard = role.buffer(BufferKind::Comm, DType::F32, 4);
  const BufferId full = role.buffer(BufferKind::Comm, DType::F32, 8);
  const BufferId grad = role.buffer(BufferKind::Comm, DType::F32, 8);
  const OpId gather = role.op(OpKind::AllGather, Stream::Gather, 0, {shard, full});
  const OpId reduce = role.op(OpKind::AllReduce, Stream::Reduce, 0, {grad});
  program.roles.push_back(role.finish({0, 1}));
  Ranks<TestType> ranks(program);
  for (Rank r = 0; r < 2; ++r) {
    for (int i = 0; i < 4; ++i)
      ranks.template data<float>(r, shard)[i] = static_cast<float>(10 * r + i);
    for (int i = 0; i < 8; ++i) ranks.template data<float>(r, grad)[i] = 1.0F;
    ranks.device(r).begin_step({});
  }
  REQUIRE(ranks.enqueue(0, gather, std::chrono::milliseconds(5)).ok());
  for (const OpId op : {gather, reduce}) REQUIRE(ranks.enqueue(1, op).ok());
  REQUIRE(ranks.enqueue(0, reduce).ok());
  for (const auto& rank : ranks.synchronize()) REQUIRE(rank.ok());
  for (Rank r = 0; r < 2; ++r) {
    CHECK(ranks.template data<float>(r, full)[5] == 11.0F);
    CHECK(ranks.template data<float>(r, grad)[7] == 2.0F);
  }
}

TEMPLATE_LIST_TEST_CASE("members that meet in different transfers get an error that names both",
                        "[backends]", Worlds) {
  Program program = testing::program_of("dp", 2);
  for (Rank r = 0; r < 2; ++r) {
    testing::RoleBuilder role;
    role.op(OpKind::AllReduce, Stream::Reduce, 0,
            {role.buffer(BufferKind::Comm, DType::F32, 4 + 4 * r)});
    program.roles.push_back(role.finish({r}));
    program.role_of_rank[r] = {r};
  }
  Ranks<TestType> ranks(program);
  for (Rank r = 0; r < 2; ++r) {
    ranks.device(r).begin_step({});
    REQUIRE(ranks.enqueue(r, {0}).ok());
  }
  for (const auto& result : ranks.synchronize()) {
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().kind == ErrorKind::Internal);
    CHECK_THAT(result.error().message, ContainsSubstring("rank 0 %0 all_reduce 16 B float32") &&
                                           ContainsSubstring("rank 1 %0 all_reduce 32 B float32"));
  }
}

TEMPLATE_LIST_TEST_CASE("abort wakes ranks that wait for a peer, and later transfers do not start",
                        "[backends]", Worlds) {
  const Program program = collective_program(3, OpKind::AllReduce, DType::F32, {8}, 3);
  Ranks<TestType> ranks(program);
  for (Rank r = 0; r < 3; ++r) ranks.device(r).begin_step({});
  for (Rank r = 0; r < 2; ++r) {  // rank 2 never comes
    for (int i = 0; i < 3; ++i) REQUIRE(ranks.enqueue(r, {i}).ok());
  }
  std::thread breaker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ranks.communicator(2).abort(Error{ErrorKind::Device, "rank 2 is lost", std::nullopt});
  });
  for (Rank r = 0; r < 2; ++r) {
    const auto result = ranks.device(r).synchronize();
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message == "rank 2 is lost");
  }
  breaker.join();
  REQUIRE(ranks.enqueue(0, {0}).ok());
  CHECK_FALSE(ranks.device(0).synchronize().ok());
}

TEMPLATE_LIST_TEST_CASE(
    "a rotation gives each what the one before it has, and comes home after all", "[backends]",
    Worlds) {
  std::mt19937 random(4);
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const std::int64_t n : {0, 1, 7, 1025}) {  // which the group need not divide
      const Program program = collective_program(ranks, OpKind::Rotate, DType::I32, {n, n});
      Ranks<TestType> all(program);
      const auto value = [](Rank r, std::int64_t i) {
        return static_cast<std::int32_t>(1000000 * r + i);
      };
      for (Rank r = 0; r < ranks; ++r) {
        for (std::int64_t i = 0; i < n; ++i)
          all.template data<std::int32_t>(r, {0})[i] = value(r, i);
      }
      for (int turn = 1; turn <= ranks; ++turn) {
        all.run_all(random);
        bool right = true;
        for (Rank r = 0; r < ranks; ++r) {
          const Rank from = (r + ranks - turn % ranks) % ranks;
          const std::int32_t* const got = all.template data<std::int32_t>(r, {1});
          for (std::int64_t i = 0; i < n; ++i) right &= got[i] == value(from, i);
        }
        CHECK(right);
        for (Rank r = 0; r < ranks; ++r) {
          std::copy_n(all.template data<std::int32_t>(r, {1}), n,
                      all.template data<std::int32_t>(r, {0}));
        }
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("transfers that cannot be are refused when they are enqueued", "[backends]",
                        Worlds) {
  const auto refusal = [](const Program& program) {
    Ranks<TestType> ranks(program);
    ranks.device(0).begin_step({});
    const auto result = ranks.enqueue(0, {0});
    REQUIRE_FALSE(result.ok());
    return result.error().message;
  };
  CHECK_THAT(refusal(collective_program(2, OpKind::ReduceScatter, DType::F32, {9, 4})),
             ContainsSubstring("36 B and 16 B do not fit a group of 2"));
  CHECK_THAT(refusal(collective_program(3, OpKind::AllToAll, DType::F32, {8, 8})),
             ContainsSubstring("do not fit a group of 3"));
  CHECK_THAT(refusal(collective_program(3, OpKind::Rotate, DType::F32, {8, 6})),
             ContainsSubstring("32 B and 24 B do not fit a group of 3"));
  CHECK_THAT(refusal(collective_program(2, OpKind::AllReduce, DType::U8, {8})),
             ContainsSubstring("does not add uint8"));
  Program outside = collective_program(2, OpKind::AllReduce, DType::F32, {8});
  outside.groups[0].only = {1};
  CHECK_THAT(refusal(outside), ContainsSubstring("has no group or peer"));
}

}  // namespace lockstep
