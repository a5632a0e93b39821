// Tests memory savers in the simulator: what they save, and what time they take.
#include <algorithm>

#include "backends/backends.hpp"
#include "core/analysis/report.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

constexpr const char* kText = R"([model]
preset = "gpt2-124m"
[training]
seq_len = 256
max_norm = 0.0
dtype = "float32"
[cluster]
preset = "a100-80"
[framework]
preset = "lockstep"
)";

struct Run {
  Scenario scenario;
  Program program;
  Trace trace;
};

Run simulate(const std::vector<std::string>& overrides) {
  const LoadedScenario loaded = parse_scenario(kText, "offload", overrides);
  if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
  const Scenario& s = loaded.points.front().scenario;
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  auto run = (*make_backend("sim"))->run(*program, s.cluster, {});
  if (!run) FAIL(to_string(run.error()));
  return {s, std::move(*program), std::move(run->trace)};
}

SimTime end(const Run& run) {
  SimTime last{};
  for (const Span& span : run.trace.spans) last = std::max(last, span.end);
  return last;
}

}  // namespace

TEST_CASE("the host reads 4 bytes per parameter for the norm and moves 28 to update it",
          "[integration]") {
  const Run run = simulate({"parallelism.offload=optimizer"});
  const Role& role = run.program.roles[0];
  double parameters = 0;
  for (const Unit& unit : role.units) parameters += static_cast<double>(unit.elements);
  Seconds update, up, down;
  for (const Span& span : run.trace.spans) {
    const Op& op = role.op(span.op);
    const Seconds time = to_seconds(span.end - span.active);
    if (op.stream == Stream::Host) update += time;
    if (op.moves_memory()) (op.kind == OpKind::HostToDevice ? up : down) += time;
  }
  // hardware/a100-80.toml: a DGX's host has 51.2 GB/s for each GPU, the bus 31.5 GB/s each way.
  // Norm: the float32 gradient. AdamW: it reads weight, gradient and two moments, and writes all
  // but the gradient (Ren et al. 2021).
  CHECK(update.v == Approx((4 + 28) * parameters / 51.2e9));
  CHECK(up.v == Approx(4 * parameters / 31.5e9));
  CHECK(down.v == Approx(4 * parameters / 31.5e9));
}

TEST_CASE("offload costs time and saves memory of the device", "[integration]") {
  const Run plain = simulate({});
  const Run offloaded = simulate({"parallelism.offload=optimizer"});
  CHECK(end(offloaded) > end(plain));
  CHECK(offloaded.program.roles[0].arena < plain.program.roles[0].arena);
  double parameters = 0;
  for (const Unit& unit : plain.program.roles[0].units) {
    parameters += static_cast<double>(unit.elements);
  }
  // The moments are gone from the device, and gradients as soon as they are on the host.
  const double saved = static_cast<double>(plain.program.roles[0].arena.v) -
                       static_cast<double>(offloaded.program.roles[0].arena.v);
  CHECK(saved > 8 * parameters);
  CHECK(saved < 12 * parameters);
}

TEST_CASE("recomputation counts in HFU, not in MFU, and takes the time of a forward pass",
          "[integration]") {
  const Run kept = simulate({});
  const Run again = simulate({"activation_checkpoint.mode=full"});
  const Report before = analyze(kept.trace, kept.program, kept.scenario.cluster);
  const Report after = analyze(again.trace, again.program, again.scenario.cluster);
  CHECK(after.model_flops_per_step.v == before.model_flops_per_step.v);
  CHECK(before.hfu == before.mfu);
  // R is a block's forward pass without its last product, ffn to hidden.
  const auto forward = std::find_if(again.program.functions.begin(), again.program.functions.end(),
                                    [](const Function& f) { return f.name == "block_r.F"; });
  REQUIRE(forward != again.program.functions.end());
  const ModelSpec& m = again.scenario.model;
  const double rows = 256;
  const double last = 2 * rows * static_cast<double>(m.ffn_hidden * m.hidden);
  const double repeated = static_cast<double>(m.layers) * (work(*forward).flops.v - last);
  CHECK(after.hardware_flops_per_step.v - after.model_flops_per_step.v == Approx(repeated));
  CHECK(after.hfu > after.mfu);
  CHECK(after.mfu < before.mfu);
  CHECK(again.program.roles[0].arena < kept.program.roles[0].arena);
}
