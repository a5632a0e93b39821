#include "core/ir/lifetimes.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/catch.hpp"

using namespace lockstep;

TEST_CASE("the uses of buffers are the first and the last op of each stream, in their order",
          "[core][ir]") {
  std::mt19937 random(2);
  constexpr int kBuffers = 5;
  StreamUses uses(kBuffers);
  std::map<std::pair<BufferId, Stream>, std::pair<OpId, OpId>> expected;
  for (std::int32_t op = 0; op < 60; ++op) {
    const BufferId root{static_cast<std::int32_t>(random() % kBuffers)};
    const auto stream = static_cast<Stream>(random() % 4);
    uses.add(root, stream, {op});
    expected.try_emplace({root, stream}, OpId{op}, OpId{op}).first->second.second = {op};
  }
  CHECK(std::is_sorted(uses.all().begin(), uses.all().end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; }));
  std::size_t found = 0;
  for (std::int32_t b = 0; b < kBuffers; ++b) {
    uses.visit({b}, [&](const StreamUses::Use& use) {
      const auto [first, last] = expected.at({BufferId{b}, use.stream});
      CHECK(use.root == BufferId{b});
      CHECK(use.first == first);
      CHECK(use.last == last);
      ++found;
    });
  }
  CHECK(found == expected.size());
}

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
      buffer.set_view({0});  // a view has no lifetime
    } else if (random() % 4 != 0) {
      const auto ends =
          std::minmax({static_cast<int>(random() % kOps), static_cast<int>(random() % kOps)});
      buffer.set_lifetime({ends.first}, {ends.second});
      roots.push_back({b});
    }
    role.buffers.push_back(buffer);
  }
  std::vector<BufferId> sorted = roots;
  std::stable_sort(sorted.begin(), sorted.end(), [&](BufferId a, BufferId b) {
    return role.buffer(a).first() < role.buffer(b).first();
  });
  CHECK(temporaries_by_first(role) == sorted);
  sorted = roots;
  std::stable_sort(sorted.begin(), sorted.end(), [&](BufferId a, BufferId b) {
    return role.buffer(a).last() < role.buffer(b).last();
  });
  CHECK(temporaries_by_last(role) == sorted);
}
