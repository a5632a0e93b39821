// Tests that every strategy trains residual networks as one rank does that takes the same
// microbatches, or, with synchronized batch norm, as one rank that takes all images at once.
#include <cstdio>

#include "tests/integration/parity_runs.hpp"

using namespace lockstep;
using test::decoded;
using test::Distance;
using test::distance;
using test::image_rows;
using test::is_running_statistic;
using test::Outcome;
using test::parity_row;
using test::ParityRow;
using test::References;
using test::state_distance;
using test::train;

namespace {

/// The two kinds of blocks: two 3×3 convolutions, or a bottleneck.
const char* const kBlocks[] = {"model.bottleneck=false", "model.bottleneck=true"};

Scenario scenario_of(const ParityRow& row, DType dtype) {
  return test::parity_scenario(Architecture::Resnet, row, dtype);
}
Scenario scenario_of(const std::string& keys, DType dtype) {
  return scenario_of(parity_row("", keys), dtype);
}

/// Whether the running statistics in the state are of all images. Of several data-parallel ranks,
/// the state has the lowest one's, which are of its own images unless batch norm is synchronized.
bool has_all_statistics(const Scenario& s) {
  return s.strategy.sync_batch_norm || s.strategy.data_parallel_degree() == 1;
}

void check_parity(DType dtype, double loss_tolerance, double state_tolerance) {
  References references(Architecture::Resnet, dtype);
  for (const char* block : kBlocks) {
    for (const ParityRow& row : image_rows(block)) {
      if (!row.trains_in(dtype)) continue;
      INFO(row.name << ", " << block);
      const Scenario s = scenario_of(row, dtype);
      const Distance d = distance(train(s), references.of(row));
      const double loss = row.tolerance(dtype, loss_tolerance);
      const double state = row.tolerance(dtype, state_tolerance);
      CHECK(d.loss <= loss);
      CHECK(d.norm <= 20 * loss);
      CHECK(d.weights <= state);
      if (has_all_statistics(s)) CHECK(d.statistics <= 2 * state);
    }
  }
}

}  // namespace

// This is not a test: it prints the rows of residual networks for scripts/parity-table.
TEST_CASE("the parity table of residual networks", "[.parity-table-images]") {
  std::printf(
      "| layout | keys | ranks | float64: 3×3 | bottleneck | float32: 3×3 | bottleneck |\n"
      "| --- | --- | --: | --- | --- | --- | --- |\n");
  References wide(Architecture::Resnet, DType::F64), single(Architecture::Resnet, DType::F32);
  const std::size_t rows = image_rows().size();
  for (std::size_t i = 0; i < rows; ++i) {
    const ParityRow named = image_rows()[i];
    std::string cells;
    int ranks = 0;
    for (References* references : {&wide, &single}) {
      const DType dtype = references == &wide ? DType::F64 : DType::F32;
      for (const char* block : kBlocks) {
        if (!named.trains_in(dtype)) {
          cells += " – |";
          continue;
        }
        const ParityRow row = image_rows(block)[i];
        const Outcome outcome = train(scenario_of(row, dtype));
        const Distance d = distance(outcome, references->of(row));
        char text[64];
        std::snprintf(text, sizeof text, " %.1e / %.1e |", d.loss, d.weights);
        cells += text;
        ranks = outcome.program.mesh.world_size();
      }
    }
    std::printf("| %s | `%s` | %d |%s\n", named.name.c_str(), named.keys.c_str(), ranks,
                cells.c_str());
  }
}

TEST_CASE("residual networks train under every strategy as one rank, in float64 to 1e-11",
          "[integration]") {
  check_parity(DType::F64, 1e-11, 1e-11);
}

TEST_CASE(
    "residual networks train as one rank in float32: losses 1e-5, weights 1e-4; in bfloat16 2e-2",
    "[integration]") {
  check_parity(DType::F32, 1e-5, 1e-4);
}

TEST_CASE("without synchronized batch norm ranks train to something else", "[integration]") {
  const Outcome local = train(scenario_of("dp_replicate=3", DType::F64));
  const Outcome one = train(scenario_of("", DType::F64));
  CHECK(std::abs(local.run.trace.steps[0].loss - one.run.trace.steps[0].loss) > 1e-3);
}

TEST_CASE("a residual network's state, running statistics too, resumes in another layout",
          "[integration]") {
  const Scenario ddp = scenario_of("dp_replicate=2 sync_batch_norm=true", DType::F64);
  const Scenario fsdp = scenario_of("dp_shard=2 tp=2 pp=2 sync_batch_norm=true", DType::F64);
  const TrainingState whole = train(ddp).run.state;
  for (const auto& [from, to] : {std::pair(ddp, fsdp), std::pair(fsdp, ddp)}) {
    const TrainingState half = train(from, 5).run.state;
    REQUIRE(half.step == 5);
    const TrainingState resumed = train(to, 5, &half).run.state;
    CHECK(state_distance(resumed, whole) <= 1e-11);
    CHECK(state_distance(resumed, whole, true) <= 1e-11);
  }
}

TEST_CASE("in bfloat16, too, replicas and every ZeRO stage agree to the last bit",
          "[integration]") {
  for (const std::string more : {"", " sync_batch_norm=true"}) {
    const std::string keys = "=3 training.mixed_precision_param=bfloat16" + more;
    const Outcome ddp = train(scenario_of("dp_replicate" + keys, DType::F32));
    for (const int stage : {1, 2, 3}) {
      INFO("ZeRO-" << stage << more);
      const std::string zero = " zero_stage=" + std::to_string(stage);
      check_same_bits(train(scenario_of("dp_shard" + keys + zero, DType::F32)), ddp);
    }
  }
}

TEST_CASE("running statistics in bfloat16 change nothing but themselves", "[integration]") {
  const std::string keys =
      "dp_replicate=2 pp=2 mb=2 sync_batch_norm=true training.mixed_precision_param=bfloat16";
  const Scenario s = scenario_of(keys + " training.mixed_precision_buffer=bfloat16", DType::F32);
  const Outcome narrow = train(s), wide = train(scenario_of(keys, DType::F32));
  const Distance d = distance(narrow, wide);
  CHECK(d.loss == 0);
  CHECK(d.weights == 0);
  CHECK(d.statistics > 0);
  CHECK(d.statistics <= 1e-2);
  for (const auto& [name, tensor] : narrow.run.state.tensors) {
    CHECK(tensor.dtype == (is_running_statistic(name) ? DType::BF16 : DType::F32));
  }
  // And they resume, to the last bit.
  const TrainingState half = train(s, 5).run.state;
  CHECK(train(s, 5, &half).run.state == narrow.run.state);
}
