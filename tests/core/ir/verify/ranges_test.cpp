#include <algorithm>
#include <random>
#include <utility>

#include "core/ir/verify/internal.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

TEST_CASE("views of few and of many buffers, before and behind their parents, lie in their roots",
          "[core][ir][verify]") {
  std::mt19937 random(3);
  for (const unsigned views_in_ten : {0u, 1u, 5u, 9u}) {
    for (const std::int32_t count : {1, 10, 300, 3000}) {
      Program program;
      Role role;
      role.buffers.resize(count);
      // A view's parent comes before it in a random order of all buffers, so there is no circle.
      IndexVector<std::int32_t, BufferId> order;
      for (const BufferId id : role.buffers.ids()) order.push_back(id);
      std::shuffle(order.begin(), order.end(), random);
      for (std::int32_t i = 0; i < count; ++i) {
        Buffer& buffer = role.buffers[order[i]];
        buffer.bytes = Bytes{1 + static_cast<std::int64_t>(random() % 9)};
        if (i == 0 || random() % 10 >= views_in_ten) continue;
        buffer.set_view(order[static_cast<std::int32_t>(random() % to_size(i))]);
        buffer.offset = static_cast<std::int64_t>(random() % 100);
      }
      const verification::Ranges ranges(program, role);
      for (const BufferId id : role.buffers.ids()) {
        BufferId root = id;
        std::int64_t offset = 0;
        for (; role.buffer(root).is_view(); root = role.buffer(root).parent()) {
          offset += role.buffer(root).offset;
        }
        INFO(count << " buffers, " << views_in_ten << " views in ten, %b" << id.v);
        REQUIRE(ranges.root(id) == root);
        REQUIRE(ranges.offset(id) == offset);
        const verification::Touch touch = ranges.part(id, 1, 2, Access::Read);
        REQUIRE(touch.root == root);
        REQUIRE(std::pair(touch.begin, touch.end) == std::pair(offset + 1, offset + 3));
      }
    }
  }
}
