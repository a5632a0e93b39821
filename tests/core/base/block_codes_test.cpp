#include "core/base/block_codes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("a code stands for the nearest multiple of its block's scale", "[core]") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> values(-3, 3);
  for (const int bits : {4, 8}) {
    for (int round = 0; round < 2'000; ++round) {
      std::vector<double> block(8);
      double largest = 0;
      for (double& value : block) largest = std::max(largest, std::abs(value = values(random)));
      const float scale = scale_of_block(largest, bits);
      for (const double value : block) {
        const int code = block_code(value, scale, bits);
        CHECK(std::abs(code) <= largest_code(bits));
        // The bound that the header states, but for the rounding of the scale.
        CHECK(std::abs(code * double(scale) - value) <=
              largest / largest_code(bits) / 2 * (1 + 1e-6));
        CHECK(block_code(static_cast<float>(value), scale, bits) ==
              -block_code(-static_cast<float>(value), scale, bits));
      }
    }
  }
}

TEST_CASE("the largest value of a block has the largest code, and zeros have none", "[core]") {
  for (const int bits : {4, 8}) {
    for (const double largest : {1e-30, 0.1, 7.0, 1e30}) {
      CHECK(block_code(largest, scale_of_block(largest, bits), bits) == largest_code(bits));
      CHECK(block_code(-largest, scale_of_block(largest, bits), bits) == -largest_code(bits));
    }
    CHECK(scale_of_block(0.0, bits) == 0);
    CHECK(block_code(0.0, 0.0F, bits) == 0);
  }
  CHECK(block_code(2.5, 1.0F, 8) == 2);  // of two equally near, the even one
  CHECK(block_code(3.5, 1.0F, 8) == 4);
}

TEST_CASE("a block with a value that is not finite stands for NaN", "[core]") {
  const float scale = scale_of_block(std::numeric_limits<double>::infinity(), 8);
  CHECK(std::isinf(scale));
  CHECK(std::isnan(static_cast<float>(block_code(1.0, scale, 8)) * scale));
}

TEST_CASE("codes of 4 bits share bytes, and parts are whole words", "[core]") {
  std::vector<std::uint8_t> bytes(8, 0xa5);
  for (int i = 0; i < 15; ++i) set_code(bytes.data(), i, 4, i - 7);
  for (int i = 0; i < 15; ++i) CHECK(code_at(bytes.data(), i, 4) == i - 7);
  for (int i = 0; i < 8; ++i) set_code(bytes.data(), i, 8, 20 * i - 127);
  for (int i = 0; i < 8; ++i) CHECK(code_at(bytes.data(), i, 8) == 20 * i - 127);
  CHECK(bytes_of_codes(4096, 2048, 8) == 2 * 4 + 4096);
  CHECK(bytes_of_codes(4096, 2048, 4) == 2 * 4 + 2048);
  CHECK(bytes_of_codes(9, 4, 4) == 3 * 4 + 8);
}

TEST_CASE("parts for one rank stand together, one of each row of parts", "[core]") {
  // Two rows of three parts for three ranks: those of rank 0, of rank 1, of rank 2.
  std::vector<std::int64_t> order;
  for (int place = 0; place < 6; ++place) order.push_back(part_of_values(place, 6, 3));
  CHECK(order == std::vector<std::int64_t>{0, 3, 1, 4, 2, 5});
  for (int place = 0; place < 6; ++place) CHECK(part_of_values(place, 6, 6) == place);
  for (int place = 0; place < 6; ++place) CHECK(part_of_values(place, 6, 1) == place);
}

}  // namespace lockstep
