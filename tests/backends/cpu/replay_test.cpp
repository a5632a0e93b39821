#include "backends/cpu/replay.hpp"

#include <map>

#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep::cpu {
namespace {

Program program_of(const std::vector<std::string>& set,
                   const std::string& scenario = "tiny/gpt2-ddp2.toml") {
  LoadedScenario loaded = load_scenario(LOCKSTEP_SOURCE_DIR "/scenarios/" + scenario, set);
  REQUIRE(loaded.ok());
  Result<Program> program = lower(loaded.points.front().scenario);
  REQUIRE(program.ok());
  return std::move(*program);
}

TEST_CASE("a replay measures every kernel of every rank's calls as often as a step runs it",
          "[backends][cpu]") {
  for (const char* pipeline : {"1", "2"}) {
    const Program program =
        program_of({std::string("parallelism.pipeline_parallel_degree=") + pipeline});
    Result<Replay> replay = Replay::prepare(program);
    REQUIRE(replay.ok());
    for (int turn = 0; turn < 2; ++turn) replay->run(2);
    const std::vector<KernelTime> times = replay->times();
    std::map<KernelKind, int> expected, counted;
    for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
      for (const Op& op : program.role_of(rank).ops) {
        if (op.kind != OpKind::Call || op.stream != Stream::Compute) continue;
        for (const Kernel& k : program.function(op.function()).kernels) ++expected[k.kind];
      }
    }
    for (std::size_t i = 0; i < times.size(); ++i) {
      const KernelTime& time = times[i];
      CHECK(time.seconds > 0);
      counted[time.kernel.kind] += time.count;
      for (std::size_t k = 0; k < i; ++k) {
        CHECK_FALSE(same_work(time.kernel, times[k].kernel));
      }
    }
    CHECK(counted == expected);

    const std::vector<CallFactors> steps = replay->factors();
    REQUIRE(steps.size() == 4);
    for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
      const Role& role = program.role_of(rank);
      for (std::size_t i = 0; i < role.ops.size(); ++i) {
        const Op& op = role.ops[i];
        const bool timed = op.kind == OpKind::Call && op.stream == Stream::Compute;
        for (const CallFactors& factors : steps) {
          REQUIRE(factors[to_size(rank)].size() == role.ops.size());
          CHECK(factors[to_size(rank)][i] > 0);
          if (!timed) CHECK(factors[to_size(rank)][i] == 1);
        }
      }
    }
  }
}

TEST_CASE("a replay has neither times nor factors of delays, which take the time that they say",
          "[backends][cpu]") {
  const Program program =
      program_of({"costs.forward=1e-4", "costs.backward_input=1e-4", "costs.backward_weight=1e-4"},
                 "schedules/1f1b-p4-m8.toml");
  Result<Replay> replay = Replay::prepare(program);
  REQUIRE(replay.ok());
  replay->run(2);
  CHECK(replay->times().empty());
  const std::vector<CallFactors> steps = replay->factors();
  REQUIRE(steps.size() == 2);
  for (const CallFactors& factors : steps) {
    REQUIRE(factors.size() == 4);
    for (const auto& of_rank : factors) {
      for (const double factor : of_rank) CHECK(factor == 1);
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu
