#include "core/analysis/merge_stretches.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("merging stretches sorts as a stable sort does, however many stretches there are",
          "[core][analysis]") {
  std::mt19937 random(7);
  for (const std::size_t stretches : {0, 1, 2, 3, 7, 16, 100}) {
    std::vector<std::pair<int, int>> list;  // (key, place)
    for (std::size_t s = 0; s < stretches; ++s) {
      std::vector<int> keys(random() % 9);
      for (int& key : keys) key = static_cast<int>(random() % 20);
      std::sort(keys.begin(), keys.end());
      for (const int key : keys) list.emplace_back(key, static_cast<int>(list.size()));
    }
    const auto less = [](const auto& a, const auto& b) { return a.first < b.first; };
    auto sorted = list;
    std::stable_sort(sorted.begin(), sorted.end(), less);
    merge_stretches(list, less);
    CHECK(list == sorted);
  }
}

}  // namespace lockstep
