#include "core/base/loss_scale.hpp"

#include <cmath>
#include <random>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

/// torch.cuda.amp's update_scale_ (aten/src/ATen/native/cuda/AmpKernels.cu, PyTorch 1.13), line by
/// line: the oracle of the default policy.
struct GradScaler {
  float scale = 65536;
  int growth_tracker = 0;
  void update(bool found_inf, float growth, float backoff, int interval) {
    if (found_inf) {
      scale = scale * backoff;
      growth_tracker = 0;
      return;
    }
    const int successful = growth_tracker + 1;
    if (successful == interval) {
      const float new_scale = scale * growth;
      if (std::isfinite(new_scale)) scale = new_scale;
      growth_tracker = 0;
    } else {
      growth_tracker = successful;
    }
  }
};

/// Megatron-LM's DynamicGradScaler.update (megatron/core/optimizer/grad_scaler.py), line by line.
struct DynamicGradScaler {
  double scale;
  int growth_tracker = 0, hysteresis_tracker;
  void update(bool found_inf, const LossScaling& s) {
    if (found_inf) {
      growth_tracker = 0;
      hysteresis_tracker -= 1;
      if (hysteresis_tracker <= 0) scale = std::max(scale * s.backoff_factor, s.min_scale);
    } else {
      growth_tracker += 1;
      if (growth_tracker == s.growth_interval) {
        growth_tracker = 0;
        hysteresis_tracker = s.hysteresis;
        scale = scale * s.growth_factor;
      }
    }
  }
};

TEST_CASE("the default loss scale moves as PyTorch's GradScaler does", "[core][base]") {
  std::mt19937 random(7);
  for (const double rate : {0.0, 0.02, 0.3, 0.9}) {
    LossScaling scaling;
    scaling.growth_interval = rate == 0.02 ? 7 : 3;
    GradScaler oracle;
    LossScale scale = LossScale::first(scaling);
    int skipped = 0;
    for (int step = 0; step < 500; ++step) {
      const bool overflow = std::bernoulli_distribution(rate)(random);
      oracle.update(overflow, 2, 0.5, scaling.growth_interval);
      scale = scale.after_step(!overflow, scaling);
      skipped += overflow;
      INFO("rate " << rate << ", step " << step);
      if (oracle.scale == 0) break;  // float32's end; here the scale is a double
      REQUIRE(scale.scale == static_cast<double>(oracle.scale));
      REQUIRE(scale.good_steps == oracle.growth_tracker);
      REQUIRE(scale.skipped_steps == skipped);
    }
  }
}

TEST_CASE("with hysteresis and a minimum the loss scale moves as Megatron-LM's does",
          "[core][base]") {
  std::mt19937 random(11);
  const LossScaling scaling{1024, 2, 0.5, 5, 2, 1};
  DynamicGradScaler oracle{scaling.init_scale, 0, scaling.hysteresis};
  LossScale scale = LossScale::first(scaling);
  bool at_minimum = false, grew = false;
  for (int step = 0; step < 2000; ++step) {
    const bool overflow = std::bernoulli_distribution(step % 400 < 200 ? 0.5 : 0.05)(random);
    const double before = oracle.scale;
    oracle.update(overflow, scaling);
    scale = scale.after_step(!overflow, scaling);
    INFO("step " << step);
    REQUIRE(scale.scale == oracle.scale);
    at_minimum = at_minimum || oracle.scale == 1;
    grew = grew || oracle.scale > before;
  }
  CHECK(at_minimum);
  CHECK(grew);
}

TEST_CASE("a loss scale is read back from its text, and nothing else is", "[core][base]") {
  const LossScale scale{std::ldexp(1.0, -20), 1999, 0, 12};
  CHECK(parse_loss_scale(to_string(scale)) == scale);
  CHECK(to_string(LossScale{65536, 12, 1, 3}) == "65536 12 1 3");
  for (const char* text : {"", "65536", "65536 1 1", "65536 1 1 3 ", "0 1 1 3", "-2 1 1 3",
                           "65536 -1 1 3", "65536 1.5 1 3", "inf 1 1 x"}) {
    INFO(text);
    CHECK_FALSE(parse_loss_scale(text));
  }
}

TEST_CASE("figures that would not scale are refused by their names", "[core][base]") {
  const auto field = [](auto change) {
    LossScaling scaling;
    change(scaling);
    return fault_of(scaling).first;
  };
  CHECK(fault_of(LossScaling{}).first.empty());
  CHECK(field([](LossScaling& s) { s.init_scale = 0; }) == "init_scale");
  CHECK(field([](LossScaling& s) { s.growth_factor = 0.5; }) == "growth_factor");
  CHECK(field([](LossScaling& s) { s.backoff_factor = 1.5; }) == "backoff_factor");
  CHECK(field([](LossScaling& s) { s.growth_interval = 0; }) == "growth_interval");
  CHECK(field([](LossScaling& s) { s.hysteresis = 0; }) == "hysteresis");
  CHECK(field([](LossScaling& s) { s.min_scale = 1e9; }) == "min_scale");
}

}  // namespace
}  // namespace lockstep
