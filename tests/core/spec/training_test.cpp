#include "core/spec/training.hpp"

#include <cmath>

#include "core/spec/scenario.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("without warmup and decay the rate is constant", "[core][spec]") {
  OptimizerSpec optimizer;
  optimizer.lr = 0.25;
  for (int step = 0; step < 10; ++step) CHECK(learning_rate(optimizer, {}, 10).at(step) == 0.25);
}

TEST_CASE("warmup climbs linearly from lr/n to lr", "[core][spec]") {
  OptimizerSpec optimizer;
  optimizer.lr = 1;
  LrSchedulerSpec schedule;
  schedule.warmup_steps = 4;
  for (int step = 0; step < 4; ++step) {
    CHECK(learning_rate(optimizer, schedule, 10).at(step) == Approx((step + 1) / 4.0));
  }
  CHECK(learning_rate(optimizer, schedule, 10).at(9) == Approx(1));
}

TEST_CASE("decay runs over the last part of the steps and ends at its floor", "[core][spec]") {
  OptimizerSpec optimizer;
  optimizer.lr = 1;
  LrSchedulerSpec schedule;
  schedule.decay_ratio = 0.4;  // the last 4 of 10 steps, so step 6 + i has come (i + 1)/4 down
  schedule.min_lr_factor = 0.2;
  CHECK(learning_rate(optimizer, schedule, 10).at(5) == 1);
  for (int i = 0; i < 4; ++i) {
    const double down = (i + 1) / 4.0;
    schedule.decay_type = DecayType::Linear;
    CHECK(learning_rate(optimizer, schedule, 10).at(6 + i) == Approx(1 - 0.8 * down));
    schedule.decay_type = DecayType::Cosine;
    CHECK(learning_rate(optimizer, schedule, 10).at(6 + i) ==
          Approx(0.2 + 0.8 * std::pow(std::cos(std::acos(-1.0) / 2 * down), 2)));
  }
}

TEST_CASE("the rate never rises after warmup and stays between its bounds", "[core][spec]") {
  OptimizerSpec optimizer;
  optimizer.lr = 3e-4;
  for (const DecayType type : {DecayType::Linear, DecayType::Cosine}) {
    for (const double ratio : {0.1, 0.5, 1.0}) {
      for (const int warmup : {0, 3}) {
        LrSchedulerSpec schedule;
        schedule.warmup_steps = warmup;
        schedule.decay_ratio = ratio;
        schedule.decay_type = type;
        schedule.min_lr_factor = 0.1;
        double last = INFINITY;
        for (int step = warmup; step < 40; ++step) {
          const double lr = learning_rate(optimizer, schedule, 40).at(step);
          CHECK(lr <= last);
          CHECK(lr <= optimizer.lr * (1 + 1e-12));
          CHECK(lr >= optimizer.lr * 0.1 * (1 - 1e-12));
          last = lr;
        }
        CHECK(last < optimizer.lr);
      }
    }
  }
}

TEST_CASE("the learning rate scales with data-parallel ranks if asked to", "[core][spec]") {
  Scenario s;
  s.optimizer.lr = 0.1;
  s.lr_scheduler.warmup_steps = 4;
  s.strategy.data_parallel_replicate_degree = 2;
  s.strategy.data_parallel_shard_degree = 4;
  s.strategy.pipeline_parallel_degree = 3;  // does not enlarge the batch
  CHECK(s.learning_rate().at(4) == Approx(0.1));
  s.lr_scheduler.scale_with_ranks = true;
  CHECK(s.learning_rate().at(4) == Approx(0.8));
  CHECK(s.learning_rate().at(0) == Approx(0.2));
}

}  // namespace
}  // namespace lockstep
