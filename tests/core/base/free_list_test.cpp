#include "core/base/free_list.hpp"

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// The same rules on a list of cells of kAlignment bytes: of the stretches of free cells that are
/// long enough, below the last cell in use, the shortest; of these the lowest; else behind the
/// last.
class Cells {
 public:
  std::size_t allocate(std::size_t count) {
    const std::size_t top = end();
    std::size_t best = top, shortest = ~std::size_t{0};
    for (std::size_t i = 0; i < top;) {
      std::size_t last = i;
      while (last < top && !used_[last]) ++last;
      if (last - i >= count && last - i < shortest) {
        best = i;
        shortest = last - i;
      }
      i = last + 1;
    }
    used_.resize(std::max(used_.size(), best + count), false);
    std::fill_n(used_.begin() + static_cast<std::ptrdiff_t>(best), count, true);
    return best;
  }
  void release(std::size_t first, std::size_t count) {
    std::fill_n(used_.begin() + static_cast<std::ptrdiff_t>(first), count, false);
  }
  std::size_t end() const {
    return static_cast<std::size_t>(used_.rend() - std::find(used_.rbegin(), used_.rend(), true));
  }

 private:
  std::vector<bool> used_;
};

struct Taken {
  FreeList::Lot lot = FreeList::kNothing;
  std::size_t first = 0, count = 0;  // cells
};

}  // namespace

TEST_CASE("a free list takes the smallest range that fits, and knows who had its parts last",
          "[core][base]") {
  for (const auto& [seed, live, longest] :
       {std::tuple{1U, 12U, 5U}, std::tuple{2U, 40U, 3U}, std::tuple{3U, 600U, 9U}}) {
    std::mt19937 random(seed);
    FreeList list;
    Cells cells;
    std::vector<Taken> taken;
    std::vector<FreeList::Tenant> last;  // by cell
    std::size_t high = 0;
    for (int step = 0; step < 4000; ++step) {
      if (taken.size() < live && random() % 5 < 3) {
        const std::size_t count = 1 + random() % longest;
        // Any size of the last cell is rounded up.
        const auto bytes = static_cast<std::int64_t>(count) * FreeList::kAlignment -
                           static_cast<std::int64_t>(random() % FreeList::kAlignment);
        std::vector<FreeList::Tenant> former, expected;
        const FreeList::Lot lot = list.take(bytes, &former);
        const std::size_t first = cells.allocate(count);
        REQUIRE(list.offset(lot) == static_cast<std::int64_t>(first) * FreeList::kAlignment);
        last.resize(std::max(last.size(), first + count), FreeList::kNobody);
        for (std::size_t c = first; c < first + count; ++c) {
          if (last[c] != FreeList::kNobody) expected.push_back(last[c]);
        }
        expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
        REQUIRE(former == expected);
        taken.push_back({lot, first, count});
        high = std::max(high, cells.end());
      } else if (!taken.empty()) {
        std::swap(taken[random() % taken.size()], taken.back());
        const auto [lot, first, count] = taken.back();
        taken.pop_back();
        list.give_back(lot, step);
        cells.release(first, count);
        std::fill_n(last.begin() + static_cast<std::ptrdiff_t>(first), count, step);
      }
      REQUIRE(list.high_water() == static_cast<std::int64_t>(high) * FreeList::kAlignment);
    }
  }
}

TEST_CASE("no bytes take no place in an arena", "[core][base]") {
  FreeList list;
  const FreeList::Lot nothing = list.take(0);
  CHECK(list.offset(nothing) == 0);
  list.give_back(nothing);
  CHECK(list.high_water() == 0);
  CHECK(list.offset(list.take(1)) == 0);
  CHECK(list.offset(list.take(1)) == FreeList::kAlignment);
}
