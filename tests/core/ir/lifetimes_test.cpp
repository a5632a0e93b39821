#include "core/ir/lifetimes.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/catch.hpp"

using namespace lockstep;

TEST_CASE("buffers sorted by the ends of their lifetimes are those of a stable sort",
          "[core][ir]") {
  std::mt19937 random(1);
  Role role;
  constexpr int kOps = 40;
  role.ops.resize(kOps);
  std::vector<BufferId> roots;
  for (int b = 0; b < 300; ++b) {
    Buffer buffer;
    if (random() % 4 == 0 && b > 0) {
      buffer.parent = {0};  // a view has no lifetime
    } else if (random() % 4 != 0) {
      const auto ends =
          std::minmax({static_cast<int>(random() % kOps), static_cast<int>(random() % kOps)});
      buffer.first = {ends.first};
      buffer.last = {ends.second};
      roots.push_back({b});
    }
    role.buffers.push_back(buffer);
  }
  for (OpId Buffer::*op : {&Buffer::first, &Buffer::last}) {
    std::vector<BufferId> sorted = roots;
    std::stable_sort(sorted.begin(), sorted.end(), [&](BufferId a, BufferId b) {
      return role.buffer(a).*op < role.buffer(b).*op;
    });
    CHECK(temporaries_by(op, role) == sorted);
  }
}
