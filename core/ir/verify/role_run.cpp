#include "core/ir/verify/role_run.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::verification {

RoleRun::RoleRun(const Program& program, const Role& r, const Ranges& its_ranges)
    : role(r),
      rank(r.ranks.front()),
      ranges(its_ranges),
      noted(r.ops.size(), 0),
      content_of_(r.buffers.size(), -1) {
  for (const Op& op : r.ops) {
    layers = std::max(layers, op.layer + 1);
    microbatches = std::max(microbatches, op.microbatch + 1);
    stages = std::max(stages, op.stage + 1);
  }
  segments.resize(cell(layers, 0));
  versions.assign(cell(stages, 0), -1);
  kind_of_layer.assign(layers, -1);
  exchanges.resize(layers);
  own_layers.assign(layers, false);
  meets_others.assign(program.groups.size(), -1);
}

IntervalMap<Content>& RoleRun::held(BufferId root) {
  std::int32_t& content = content_of_[root];
  if (content >= 0) return contents_[to_size(content)];
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::int32_t>(contents_.size()));
    contents_.emplace_back();
  }
  content = unused_.back();
  unused_.pop_back();
  if (!role.buffer(root).persistent()) ends_.push({role.buffer(root).last(), root});
  return contents_[to_size(content)];
}

void RoleRun::end_lives(OpId op) {
  for (; !ends_.empty() && ends_.top().first <= op; ends_.pop()) {
    const std::int32_t content = std::exchange(content_of_[ends_.top().second], -1);
    contents_[to_size(content)].clear();
    unused_.push_back(content);
  }
}

}  // namespace lockstep::verification
