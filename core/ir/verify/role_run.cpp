#include "core/ir/verify/role_run.hpp"

#include <algorithm>
#include <utility>

#include "core/ir/lifetimes.hpp"

namespace lockstep::verification {

RoleRun::RoleRun(const Program& program, const Role& r, const Ranges& its_ranges)
    : role(r),
      rank(r.ranks.front()),
      ranges(its_ranges),
      noted(r.ops.size(), 0),
      content_of_(r.buffers.size(), nullptr),
      finishes_(temporaries_by(&Buffer::last, r)) {
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
  IntervalMap<Content>*& content = content_of_[root];
  if (content == nullptr && unused_.empty()) {
    content = &contents_.emplace_back();
  } else if (content == nullptr) {
    content = unused_.back();
    unused_.pop_back();
  }
  return *content;
}

void RoleRun::end_lives(OpId op) {
  for (; next_finish_ < finishes_.size(); ++next_finish_) {
    const BufferId root = finishes_[next_finish_];
    if (role.buffer(root).last != op) return;
    if (content_of_[root] == nullptr) continue;
    content_of_[root]->clear();
    unused_.push_back(std::exchange(content_of_[root], nullptr));
  }
}

}  // namespace lockstep::verification
