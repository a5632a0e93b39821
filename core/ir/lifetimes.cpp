#include "core/ir/lifetimes.hpp"

namespace lockstep {

// A counting sort: there are about as many buffers as ops.
std::vector<BufferId> temporaries_by(OpId Buffer::*op, const Role& role) {
  const auto temporary = [](const Buffer& b) { return !b.parent.valid() && !b.persistent(); };
  std::vector<std::size_t> place(role.ops.size() + 1, 0);
  std::size_t count = 0;
  for (const Buffer& buffer : role.buffers) {
    if (!temporary(buffer)) continue;
    ++count;
    ++place[to_size(buffer.*op) + 1];
  }
  for (std::size_t i = 1; i < place.size(); ++i) place[i] += place[i - 1];
  std::vector<BufferId> sorted(count);
  for (const BufferId id : role.buffers.ids()) {
    const Buffer& buffer = role.buffer(id);
    if (temporary(buffer)) sorted[place[to_size(buffer.*op)]++] = id;
  }
  return sorted;
}

BufferUses::BufferUses(const Role& role) : begin_(role.buffers.size() + 1, 0) {
  StreamUses uses(role.buffers.size());
  IndexVector<BufferId, BufferId> root(role.buffers.size());
  for (const BufferId id : root.ids()) root[id] = role.root(id);
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.op(id);
    for (const BufferId argument : role.args_of(op)) {
      const BufferId buffer = root[argument];
      if (!role.buffer(buffer).persistent()) uses.add(buffer, op.stream, id);
    }
  }
  for (const BufferId id : role.buffers.ids()) {
    const Buffer& buffer = role.buffer(id);
    uses.visit(id, [this](const StreamUses::Use& use) {
      ops_.insert(ops_.end(), {use.first, use.last});
    });
    const bool unused = !buffer.parent.valid() && !buffer.persistent() && !uses.any(id);
    if (unused) ops_.insert(ops_.end(), {buffer.first, buffer.last});
    begin_[to_size(id) + 1] = ops_.size();
  }
}

}  // namespace lockstep
