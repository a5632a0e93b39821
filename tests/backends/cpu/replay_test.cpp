#include "backends/cpu/replay.hpp"

#include <map>

#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep::cpu {
namespace {

Program program_of(const std::vector<std::string>& set) {
  LoadedScenario loaded = load_scenario(LOCKSTEP_SOURCE_DIR "/scenarios/tiny/gpt2-ddp2.toml", set);
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
    int steps = 0;
    const auto times = replay(program, {0, 3, [&](int done, int all) {
                                          CHECK(done <= all);
                                          steps = done;
                                        }});
    REQUIRE(times.ok());
    CHECK(steps == 3);
    std::map<KernelKind, int> expected, counted;
    for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
      for (const Op& op : program.role_of(rank).ops) {
        if (op.kind != OpKind::Call || op.stream != Stream::Compute) continue;
        for (const Kernel& k : program.function(op.function()).kernels) ++expected[k.kind];
      }
    }
    for (std::size_t i = 0; i < times->size(); ++i) {
      const KernelTime& time = (*times)[i];
      CHECK(time.seconds > 0);
      counted[time.kernel.kind] += time.count;
      for (std::size_t k = 0; k < i; ++k) {
        CHECK_FALSE(same_work(time.kernel, (*times)[k].kernel));
      }
    }
    CHECK(counted == expected);
  }
}

}  // namespace
}  // namespace lockstep::cpu
