#include "core/base/quantized_state.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "core/base/index_vector.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// bitsandbytes' create_dynamic_map(signed, max_exponent_bits=7, total_bits=8) (functional.py): the
/// middles of equal parts of every decade, with 0 and 1.
std::set<float> dynamic_map(bool has_sign) {
  std::set<float> values = {0, 1};
  for (int i = 0; i < 7; ++i) {
    const int parts = has_sign ? 1 << i : 2 << i;
    for (int part = 0; part < parts; ++part) {
      const double middle = 0.1 + 0.9 * (part + 0.5) / parts;
      const auto value = static_cast<float>(std::pow(10.0, i - 6) * middle);
      values.insert(value);
      if (has_sign) values.insert(-value);
    }
  }
  return values;
}

std::vector<float> all_values(bool has_sign) {
  std::vector<float> values;
  for (int code = 0; code < 256; ++code) {
    values.push_back(quantized_value(static_cast<std::uint8_t>(code), has_sign));
  }
  return values;
}

}  // namespace

TEST_CASE("the 256 values are those of bitsandbytes, but for -1 in the place of the least negative",
          "[core][base]") {
  for (const bool has_sign : {false, true}) {
    std::set<float> expected = dynamic_map(has_sign);
    REQUIRE(expected.size() == 256);
    if (has_sign) {
      expected.erase(std::prev(expected.find(0)));
      expected.insert(-1);
    }
    std::vector<float> values = all_values(has_sign);
    CHECK(values[0] == 0);
    std::sort(values.begin(), values.end());
    auto wanted = expected.begin();
    for (const float value : values) {
      CHECK(std::abs(value - *wanted) <= 2e-7F * std::abs(*wanted));
      ++wanted;
    }
  }
}

TEST_CASE("a fraction gets the code of the nearest value", "[core][base]") {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> exponent(-9, 0);
  for (const bool has_sign : {false, true}) {
    const std::vector<float> values = all_values(has_sign);
    for (int i = 0; i < 20000; ++i) {
      const float sign = has_sign && i % 2 == 1 ? -1.0F : 1.0F;
      const float x = sign * std::pow(10.0F, exponent(random));
      float least = 2;
      for (const float value : values) least = std::min(least, std::abs(value - x));
      CHECK(std::abs(quantized_value(quantized::code(x, has_sign), has_sign) - x) == least);
    }
    for (int code = 0; code < 256; ++code) {
      CHECK(quantized::code(values[to_size(code)], has_sign) == code);
    }
  }
  CHECK(quantized::code(std::nanf(""), true) == 0);
}

TEST_CASE("a state takes a byte per element and four per block, also where the last is short",
          "[core][base]") {
  CHECK(quantized_bytes(1024, 256) == 1024 + 4 * 4);
  CHECK(quantized_bytes(1025, 256) == 1025 + 5 * 4);
  CHECK(quantized_bytes(0, 256) == 0);
}

TEST_CASE("a state that is read and written again does not change, and is close to its values",
          "[core][base]") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1e-3F);
  for (const bool has_sign : {false, true}) {
    for (const QuantizedState shape :
         {QuantizedState{1000, 256, has_sign}, QuantizedState{7, 3, has_sign},
          QuantizedState{1, 256, has_sign}}) {
      std::vector<float> values(to_size(shape.elements));
      for (float& value : values) value = has_sign ? normal(random) : std::abs(normal(random));
      std::vector<std::byte> state(to_size(quantized_bytes(shape.elements, shape.block)));
      write_quantized(shape, values.data(), 0, shape.blocks(), state.data());
      std::vector<float> read(values.size());
      read_quantized(shape, state.data(), 0, shape.blocks(), read.data());
      for (std::int64_t b = 0; b < shape.blocks(); ++b) {
        float most = 0;
        for (std::int64_t i = b * shape.block; i < shape.end_of(b); ++i) {
          most = std::max(most, std::abs(values[to_size(i)]));
        }
        // Half a step of the highest decade, of 64 parts (128 without sign).
        const float half_step = 0.45F / (has_sign ? 64.0F : 128.0F) * most;
        for (std::int64_t i = b * shape.block; i < shape.end_of(b); ++i) {
          CHECK(std::abs(read[to_size(i)] - values[to_size(i)]) <= 1.001F * half_step);
        }
      }
      std::vector<std::byte> again(state.size());
      write_quantized(shape, read.data(), 0, shape.blocks(), again.data());
      CHECK(again == state);
    }
  }
}
