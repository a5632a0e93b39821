#include <vector>

#include "core/lower/reduce/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

namespace {

/// Parameters that fill DDP's buckets: `count` of `bytes` each, ready from the last to the first.
std::vector<std::vector<int>> buckets(int count, std::int64_t bytes) {
  Scenario s;
  s.strategy.data_parallel_replicate_degree = 2;
  Draft draft(s);
  draft.model = {};  // only the units below
  draft.program = {};
  draft.program.mesh.dims = {{"pp", 1}, {"dp_replicate", 2}, {"dp_shard", 1}, {"tp", 1}};
  draft.program.functions = {{"backward", {{"gw", Access::Write, Bytes{bytes}}}, {}}};
  draft.model.units.emplace_back();
  DraftRole out;
  Buffer buffer;
  buffer.bytes = Bytes{bytes};
  for (int i = 0; i < count; ++i) {
    draft.program.parameters.push_back({std::to_string(i), {bytes / 4}, InitKind::Zeros, 0});
    Unit unit;
    unit.elements = unit.shard_elements = bytes / 4;
    unit.parameters = {{{i}, 0, {}}};
    unit.states[StateKind::Param] = add_buffer(out.role, buffer);
    DraftUnit draft_unit;
    draft_unit.layout = 0;
    draft_unit.grad = draft_unit.reduced = add_buffer(out.role, buffer);
    out.role.units.push_back(unit);
    out.units.push_back(draft_unit);
  }
  for (int i = count; i-- > 0;) {
    Op op;
    op.target = 0;
    op.microbatch = i;
    add_op(out.role, op, {out.units[i].grad});
  }
  all_reduce_buckets(draft, out, false);
  std::vector<std::vector<int>> found;
  int ready = count;
  for (const Op& op : out.role.ops) {
    if (op.kind == OpKind::Call) {
      ready = op.microbatch;
      continue;
    }
    const Buffer& bucket = out.role.buffer(out.role.args_of(op)[0]);
    std::vector<int>& members = found.emplace_back();
    for (std::int64_t at = bucket.offset + bucket.bytes.v; at > bucket.offset; at -= bytes) {
      members.push_back(static_cast<int>(at / bytes) - 1);
    }
    CHECK(ready == members.back());  // reduced as soon as its last gradient is ready
  }
  return found;
}

}  // namespace

TEST_CASE("DDP's buckets are those of the published examples", "[core][lower]") {
  using Lists = std::vector<std::vector<int>>;
  CHECK(buckets(10, 10 << 20) == Lists{{9}, {8, 7, 6}, {5, 4, 3}, {2, 1, 0}});
  std::vector<std::size_t> sizes;
  for (const auto& bucket : buckets(120, 1 << 18)) sizes.push_back(bucket.size());
  CHECK(sizes == std::vector<std::size_t>{4, 100, 16});
}
