#include "core/run/spikes.hpp"

#include <cmath>
#include <limits>

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("a value's z-score is that of the last 128 values, itself included", "[core][run]") {
  SpikeDetector detector;
  for (int i = 0; i < 128; ++i) CHECK_FALSE(detector.z_score(i % 2 == 0 ? 1 : -1));
  // The oldest value, 1, goes; 63 values of 1, 64 of -1 and the new one stay.
  const double mean = (63.0 - 64 + 5) / 128, squares = (127.0 + 25) / 128;
  const double expected = (5 - mean) / std::sqrt(squares - mean * mean);
  CHECK(std::abs(*detector.z_score(5) - expected) < 1e-12);
  SpikeDetector flat;
  for (int i = 0; i < 128; ++i) static_cast<void>(flat.z_score(2));
  CHECK(*flat.z_score(2) == 0);
  CHECK(std::abs(*flat.z_score(3) - 127 / std::sqrt(127.0)) < 1e-9);  // one apart from 127 alike
}

TEST_CASE("the last values of a training survive a checkpoint to the bit", "[core][run]") {
  SpikeDetector detector;
  for (int i = 0; i < 200; ++i) static_cast<void>(detector.z_score(std::sin(i) * std::exp(i % 40)));
  auto again = SpikeDetector::read(detector.text());
  REQUIRE(again.ok());
  CHECK(again->text() == detector.text());
  CHECK(*again->z_score(0.1) == *detector.z_score(0.1));
  CHECK(SpikeDetector::read("").ok());
  std::string many;
  for (int i = 0; i < 129; ++i) many += i == 0 ? "1" : " 1";
  for (const std::string& text :
       {std::string("nan"), std::string("1 x"), std::string("1,2"), std::string("1e999"), many}) {
    CHECK_FALSE(SpikeDetector::read(text).ok());
  }
}

TEST_CASE("a loss or a norm stands out only above its own limit", "[core][run]") {
  const auto step = [](double loss, double norm) { return StepResult{0, loss, norm, 0, {}}; };
  for (const auto& [limits, loss, norm, text] :
       std::vector<std::tuple<SpikeLimits, double, double, std::string>>{
           {{3, 0}, 9, 1, "its loss of 9 stands out by 11.3 deviations"},
           {{0, 3}, 9, 1, ""},
           {{0, 3}, 2, 9, "its gradient norm of 9 stands out by 11.3 deviations"},
           {{12, 12}, 9, 9, ""},
           {{3, 3}, std::numeric_limits<double>::quiet_NaN(), 1, ""},
           {{3, 3}, -9, 1, ""}}) {  // one that is lower is welcome
    Spikes spikes(limits);
    for (int i = 0; i < 128; ++i) CHECK(spikes.look(step(2, 1)).empty());
    CHECK(spikes.look(step(loss, norm)) == text);
  }
}

}  // namespace lockstep
