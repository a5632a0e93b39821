#include "core/analysis/data_flow.hpp"

#include "tests/catch.hpp"
#include "tests/integration/simulated.hpp"

namespace lockstep {
namespace {

SimTime at(const StepGraph& step, int percent) {
  return step.begin() + step.makespan() * percent / 100;
}

/// The layers of the units of a rank.
std::vector<int> layers_of(const Program& program, Rank rank) {
  std::vector<int> layers;
  const Role& role = program.role_of(rank);
  for (const Unit& unit : role.units) layers.push_back(role.buffer(unit.param()).layer);
  return layers;
}

constexpr const char* kScenarios[] = {"tiny/gpt2-ddp2.toml", "tiny/gpt2-fsdp2-1f1b2.toml",
                                      "tiny/gpt2-hsdp2x2.toml", "tiny/gpt2-zero2-3.toml",
                                      "tensor-parallel/tiny-gpt2-tp2.toml"};

TEST_CASE("by the end of a step all of its data has gone all of its way", "[core][analysis]") {
  for (const char* name : kScenarios) {
    INFO(name);
    const test::Simulated s = test::simulate_file(test::scenario_file(name)).front();
    const StepGraph step(s.trace, 0, &s.program);
    for (const Rank rank : step.ranks()) {
      const DataFlow flow(step, rank);
      const SimTime before = step.begin() - SimTime{1};
      REQUIRE_FALSE(flow.microbatches(before).empty());
      for (const MicrobatchProgress& m : flow.microbatches(before)) {
        CHECK(m.forward == 0);
        CHECK(m.backward == 0);
      }
      for (const MicrobatchProgress& m : flow.microbatches(step.end())) {
        CHECK(m.forward == 1);
        CHECK(m.backward == 1);
      }
      for (const int layer : layers_of(s.program, rank)) {
        INFO("rank " << rank << " layer " << layer);
        CHECK(flow.gradients(layer, before) == GradientProgress{});
        CHECK(flow.gradients(layer, step.end()) == GradientProgress{1, 1, false, true});
      }
    }
  }
}

TEST_CASE("gradients are whole before ranks sum them, and summed before they update",
          "[core][analysis]") {
  for (const char* name : kScenarios) {
    INFO(name);
    const test::Simulated s = test::simulate_file(test::scenario_file(name)).front();
    const StepGraph step(s.trace, 0, &s.program);
    int moving = 0;
    for (const Rank rank : step.ranks()) {
      const DataFlow flow(step, rank);
      for (const int layer : layers_of(s.program, rank)) {
        GradientProgress last;
        for (int percent = 0; percent <= 100; ++percent) {
          const GradientProgress now = flow.gradients(layer, at(step, percent));
          CHECK(now.added >= last.added);
          CHECK(now.summed >= last.summed);
          if (now.summed == 1) CHECK(now.added == 1);
          if (now.updated) CHECK(now.summed == 1);
          moving += now.moving ? 1 : 0;
          last = now;
        }
      }
    }
    CHECK((moving > 0) == (s.program.mesh.size_of("tp") == 1));  // tp's ranks see the same data
  }
}

TEST_CASE("a microbatch goes backward on a rank only when it has gone forward there",
          "[core][analysis]") {
  const test::Simulated s =
      test::simulate_file(test::scenario_file("tiny/gpt2-fsdp2-1f1b2.toml")).front();
  const StepGraph step(s.trace, 0, &s.program);
  for (const Rank rank : step.ranks()) {
    const DataFlow flow(step, rank);
    CHECK(flow.microbatches(step.end()).size() == 4);
    for (int percent = 0; percent <= 100; ++percent) {
      for (const MicrobatchProgress& m : flow.microbatches(at(step, percent))) {
        if (m.backward > 0) CHECK(m.forward == 1);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
