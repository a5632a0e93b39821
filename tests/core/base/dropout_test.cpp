#include "core/base/dropout.hpp"

#include <set>

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("the key of a row is that of its sample and token, and not negative", "[core]") {
  std::set<std::int32_t> keys;
  for (int sample = 0; sample < 100; ++sample) {
    for (int token = 0; token < 100; ++token) {
      const std::int32_t key = dropout_key(7, sample, token);
      CHECK(key >= 0);
      keys.insert(key);
      CHECK(key == dropout_key(7, sample, token));
    }
  }
  CHECK(keys.size() > 9'990);  // of 2³¹ possible ones
  CHECK(dropout_key(7, 3, 4) != dropout_key(8, 3, 4));
}

TEST_CASE("as large a share is dropped as was asked for, in every layer, place and column",
          "[core]") {
  constexpr int kRows = 400, kColumns = 500;
  for (const double share : {0.0, 0.1, 0.5, 0.9}) {
    for (const auto& [layer, place] : {std::pair{0, 0}, {1, 1}, {1, 2}, {120, 2}}) {
      int dropped = 0;
      std::vector<int> in_column(kColumns);
      for (int r = 0; r < kRows; ++r) {
        const DropoutRow row(dropout_key(1, r / 20, r % 20), layer, place);
        for (std::uint32_t c = 0; c < kColumns; ++c) {
          const bool drops = row.bits(c) < dropped_below(share);
          dropped += drops;
          in_column[c] += drops;
        }
      }
      INFO(share << " of layer " << layer);
      // Five and six standard deviations of a binomial distribution.
      const double all = kRows * kColumns, sigma = std::sqrt(all * share * (1 - share));
      CHECK(std::abs(dropped - share * all) <= 5 * sigma);
      const double of_column = std::sqrt(kRows * share * (1 - share));
      for (const int count : in_column) CHECK(std::abs(count - share * kRows) <= 6 * of_column);
    }
  }
}

TEST_CASE("layers, places and neighbouring columns drop independently of each other", "[core]") {
  constexpr std::uint32_t kColumns = 100'000;
  const DropoutRow row(dropout_key(1, 2, 3), 4, 1);
  const DropoutRow others[] = {DropoutRow(dropout_key(1, 2, 3), 5, 1),
                               DropoutRow(dropout_key(1, 2, 3), 4, 2),
                               DropoutRow(dropout_key(1, 2, 4), 4, 1)};
  const std::uint32_t half = dropped_below(0.5);
  int same[4] = {};
  for (std::uint32_t c = 0; c < kColumns; ++c) {
    const bool drops = row.bits(c) < half;
    for (int i = 0; i < 3; ++i) same[i] += drops == (others[i].bits(c) < half);
    same[3] += drops == (row.bits(c + 1) < half);
  }
  for (const int count : same) CHECK(std::abs(count - 50'000) < 5 * 158);  // σ is 158
}

TEST_CASE("as large a share of probabilities is dropped as was asked for, in every head",
          "[core]") {
  constexpr int kQueries = 300;  // of causal attention, in two samples
  for (const double share : {0.1, 0.5, 0.9}) {
    for (const auto& [layer, head] : {std::pair{0, 0}, {1, 0}, {1, 1}, {2, 127}, {95, 95}}) {
      std::int64_t dropped = 0, all = 0;
      for (int sample = 0; sample < 2; ++sample) {
        for (int query = 0; query < kQueries; ++query) {
          const auto row = DropoutRow::of_query(dropout_key(1, sample, query), layer, head);
          for (int key = 0; key <= query; ++key, ++all) {
            dropped += row.bits(static_cast<std::uint32_t>(key)) < dropped_below(share);
          }
        }
      }
      INFO(share << " of layer " << layer << ", head " << head);
      const auto n = static_cast<double>(all);
      CHECK(std::abs(static_cast<double>(dropped) - share * n) <=
            5 * std::sqrt(n * share * (1 - share)));
    }
  }
}

TEST_CASE("heads drop independently of each other, of other layers, queries and places", "[core]") {
  constexpr std::uint32_t kKeys = 100'000;
  const auto row = DropoutRow::of_query(dropout_key(1, 2, 3), 4, 1);
  const DropoutRow others[] = {DropoutRow::of_query(dropout_key(1, 2, 3), 4, 0),
                               DropoutRow::of_query(dropout_key(1, 2, 3), 4, 2),
                               DropoutRow::of_query(dropout_key(1, 2, 3), 5, 1),
                               DropoutRow::of_query(dropout_key(1, 2, 4), 4, 1),
                               DropoutRow(dropout_key(1, 2, 3), 4, 1)};
  for (const DropoutRow& other : others) {
    int same = 0;
    for (std::uint32_t key = 0; key < kKeys; ++key) {
      same += (row.bits(key) < dropped_below(0.5)) == (other.bits(key) < dropped_below(0.5));
    }
    CHECK(std::abs(same - 50'000) < 5 * 158);  // σ is 158
  }
}

}  // namespace lockstep
