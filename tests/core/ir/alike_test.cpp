#include "core/ir/alike.hpp"

#include <functional>

#include "tests/catch.hpp"
#include "tests/core/ir/sample.hpp"

using namespace lockstep;

namespace {

/// Lets a buffer begin and end so many ops later.
void shift_life(Buffer& buffer, int first, int last) {
  buffer.set_lifetime({buffer.first().v + first}, {buffer.last().v + last});
}

Role a_role() { return sample::parse(sample::Sample{}.text()).roles.front(); }

}  // namespace

TEST_CASE("roles are alike whatever their layers, names, types and peers", "[core][ir]") {
  const Role a = a_role();
  Role b = a;
  b.ranks = {7};
  for (Op& op : b.ops) {
    op.layer = 3;
    if (op.stage >= 0) ++op.stage;
    if (is_p2p(op.kind)) ++op.target;
  }
  for (Buffer& buffer : b.buffers) {
    buffer.name = -1;
    buffer.layer = 3;
    buffer.dtype = DType::F16;
  }
  CHECK(alike(a, b));
}

TEST_CASE("roles are not alike if one thing differs that decides on memory", "[core][ir]") {
  const Role a = a_role();
  const std::vector<std::function<void(Role&)>> changes = {
      [](Role& r) { r.ops[2].stream = Stream::Layer; },
      [](Role& r) { r.ops[2].target = 1; },
      [](Role& r) { r.ops[1].kind = OpKind::AllToAll; },
      [](Role& r) { r.ops[4].phase = Phase::S; },
      [](Role& r) { r.ops[2].stage = -1; },
      [](Role& r) { r.ops[2].after_count = 1; },
      [](Role& r) { r.after[0] = {1}; },
      [](Role& r) { std::swap(r.args[3], r.args[4]); },
      [](Role& r) { r.ops.pop_back(); },
      [](Role& r) { r.buffers[5].bytes = Bytes{8}; },
      [](Role& r) { r.buffers[5].offset += 16; },
      [](Role& r) { shift_life(r.buffers[5], 0, 1); },
      [](Role& r) { shift_life(r.buffers[5], -1, 0); },
      [](Role& r) { r.buffers[5].set_view({4}); },
      [](Role& r) { r.buffers[5].set_view({4}, {0}); },
      [](Role& r) { r.buffers[5].tier = Tier::Host; },
      [](Role& r) { r.units[0].states[StateKind::Moment2] = {}; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    INFO("change " << i);
    Role b = a;
    changes[i](b);
    CHECK_FALSE(alike(a, b));
    CHECK_FALSE(alike(b, a));
  }
}

TEST_CASE("a role with a broadcast is not even like itself", "[core][ir]") {
  Role a = a_role();
  a.ops[1].kind = OpKind::Broadcast;
  CHECK_FALSE(alike(a, a));
}

TEST_CASE("the first of roles in a row that are alike stands for them", "[core][ir]") {
  const Role a = a_role();
  Role b = a;
  b.buffers[5].offset += 16;
  CHECK(first_alike({&a, &a, &b, &b, &b, &a}) == std::vector<std::size_t>{0, 0, 2, 2, 2, 5});
}
