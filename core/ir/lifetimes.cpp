#include "core/ir/lifetimes.hpp"

namespace lockstep {
namespace {

// There are about as many buffers as ops, so each op has a list of those that it begins or ends.
template <class OpOf>
std::vector<BufferId> temporaries_by(const Role& role, OpOf&& op_of) {
  IndexVector<OpId, BufferId> first(role.ops.size());
  IndexVector<BufferId, BufferId> next(role.buffers.size());
  std::size_t count = 0;
  for (std::size_t i = role.buffers.size(); i-- > 0;) {
    const Buffer& buffer = role.buffers[i];
    if (buffer.is_view() || buffer.persistent()) continue;
    BufferId& of_op = first[op_of(buffer)];
    next[i] = of_op;
    of_op = from_index<BufferId>(i);
    ++count;
  }
  std::vector<BufferId> sorted;
  sorted.reserve(count);
  for (const BufferId begin : first) {
    for (BufferId id = begin; id.valid(); id = next[id]) sorted.push_back(id);
  }
  return sorted;
}

}  // namespace

std::vector<BufferId> temporaries_by_first(const Role& role) {
  return temporaries_by(role, [](const Buffer& buffer) { return buffer.first(); });
}
std::vector<BufferId> temporaries_by_last(const Role& role) {
  return temporaries_by(role, [](const Buffer& buffer) { return buffer.last(); });
}

BufferUses::BufferUses(const Role& role) : begin_(role.buffers.size() + 1, 0) {
  StreamUses uses(role.buffers.size());
  uses.reserve(2 * role.buffers.size());
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
    const bool unused = !buffer.is_view() && !buffer.persistent() && !uses.any(id);
    if (unused) ops_.insert(ops_.end(), {buffer.first(), buffer.last()});
    begin_[to_size(id) + 1] = ops_.size();
  }
}

}  // namespace lockstep
