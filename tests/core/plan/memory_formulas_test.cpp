#include "core/plan/memory_formulas.hpp"

#include "tests/catch.hpp"

using namespace lockstep;

namespace {
constexpr double kGiB = 1024.0 * 1024 * 1024;
}

TEST_CASE("7 B in float32 is 28 + 28 + 56 GB, and a part of that when fully sharded",
          "[core][plan]") {
  const StateWidths fp32;
  const StateBytes ddp = model_states(7e9, 0, 8, fp32);
  CHECK(ddp.parameters == Approx(28e9));
  CHECK(ddp.gradients == Approx(28e9));
  CHECK(ddp.optimizer == Approx(56e9));
  CHECK(ddp.total() == Approx(112e9));
  CHECK(model_states(7e9, 3, 4, fp32).total() == Approx(28e9));
  const StateBytes sharded = model_states(7e9, 3, 8, fp32);
  CHECK(sharded.parameters == Approx(3.5e9));
  CHECK(sharded.gradients == Approx(3.5e9));
  CHECK(sharded.optimizer == Approx(7e9));
}

TEST_CASE("1.3 B with fp16 parameters and fp32 Adam: 15.6, 6.5, 4.2 and 2.0 GB on 8 ranks",
          "[core][plan]") {
  const StateWidths widths{2, 2, 8};
  const double expected[] = {15.6, 6.5, 4.225, 1.95};
  for (int stage = 0; stage < 4; ++stage) {
    CHECK(model_states(1.3e9, stage, 8, widths).total() / 1e9 == Approx(expected[stage]));
  }
}

TEST_CASE("7.5 B on 64 ranks: 120, 31.4, 16.6 and 1.88 GB by ZeRO stage", "[core][plan]") {
  // Rajbhandari et al. 2020, figure 1.
  const double expected[] = {120, 31.4, 16.6, 1.88};
  for (int stage = 0; stage < 4; ++stage) {
    CHECK(model_states(7.5e9, stage, 64, kMixedFp16).total() / 1e9 ==
          Approx(expected[stage]).epsilon(0.003));
  }
}

TEST_CASE("activations of the published models, with and without savings", "[core][plan]") {
  // Korthikanti et al. 2022, sequence length 2048: a, h, L, t, p, v, b; GiB with tensor parallelism
  // only and with sequence parallelism and selective recomputation; then the four fractions.
  struct Row {
    double a, h, layers, t, p, v, b, tensor_only, both;
    double percent[4];  // sequence, selective, both, full
  };
  const Row rows[] = {{64, 6144, 48, 8, 1, 1, 4, 59.25, 9.5625, {66.77, 49.37, 16.14, 7.59}},
                      {96, 12288, 96, 8, 8, 3, 1, 66.84, 12.35, {61.96, 56.52, 18.48, 8.70}},
                      {128, 20480, 105, 8, 35, 3, 1, 114.02, 23.08, {58.33, 61.90, 20.24, 9.52}},
                      {160, 25600, 128, 8, 64, 1, 1, 131.25, 26.56, {58.33, 61.90, 20.24, 9.52}}};
  for (const Row& row : rows) {
    const ActivationShape shape{row.b, 2048, row.h, row.a, row.t};
    const auto gib = [&](ActivationSavings savings) {
      return first_stage_activation_bytes(shape, savings, row.layers, row.p, row.v) / kGiB;
    };
    const double base = gib(ActivationSavings::None);
    CHECK(base == Approx(row.tensor_only).margin(0.005));
    CHECK(gib(ActivationSavings::SequenceSelective) == Approx(row.both).margin(0.005));
    const ActivationSavings all[] = {ActivationSavings::SequenceParallel,
                                     ActivationSavings::Selective,
                                     ActivationSavings::SequenceSelective, ActivationSavings::Full};
    for (int i = 0; i < 4; ++i) {
      CHECK(100 * gib(all[i]) / base == Approx(row.percent[i]).margin(0.005));
    }
  }
}

TEST_CASE("GPT-3 takes one V100 about 355 years", "[core][plan]") {
  CHECK(training_days(3.14e23, 28e12) / 365.25 == Approx(355).epsilon(0.005));
}
