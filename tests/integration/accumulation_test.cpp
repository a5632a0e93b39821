// Accumulation of sharded gradients: what a microbatch adds to a step.
#include "core/analysis/report.hpp"
#include "tests/catch.hpp"
#include "tests/integration/simulated.hpp"

using namespace lockstep;

TEST_CASE("no microbatch waits longer for sharded gradients than a step of one microbatch does",
          "[integration]") {
  // A block's gradients are scattered while the next block computes, in every microbatch. What adds
  // them to those of the microbatches before must not keep the next block from its memory.
  constexpr int kSequences = 16;  // of a microbatch: 2 on each of 8 ranks
  for (const char* name : {"lessons/choosing.toml", "lessons/gpt-7b-fsdp.toml"}) {
    Seconds alone;
    for (const int microbatches : {1, 2, 4, 16}) {
      INFO(name << ", " << microbatches << " microbatches");
      const auto run = test::simulate_file(
          test::scenario_file(name),
          {"training.global_batch_size=" + std::to_string(kSequences * microbatches)});
      const test::Simulated& only = run.front();
      REQUIRE(only.scenario.num_microbatches() == microbatches);
      const Report report = analyze(only.trace, only.program, only.scenario.cluster);
      if (microbatches == 1) alone = report.exposed_comm;
      CHECK(report.exposed_comm.v <= microbatches * alone.v * (1 + 1e-9));
    }
  }
}
