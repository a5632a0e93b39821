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
  struct OnStream {
    BufferId root;
    OpId first, last;
  };
  std::vector<OnStream> uses;
  IndexVector<BufferId, BufferId> root(role.buffers.size());
  for (const BufferId id : root.ids()) root[id] = role.root(id);
  const auto has_lifetime = [&](BufferId id) { return !role.buffer(id).persistent(); };
  // By buffer and stream, the place in `uses`; -1: none.
  std::vector<std::int32_t> place(role.buffers.size() * kNumStreams, -1);
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.op(id);
    for (const BufferId argument : role.args_of(op)) {
      const BufferId buffer = root[argument];
      if (!has_lifetime(buffer)) continue;
      std::int32_t& at = place[to_size(buffer) * kNumStreams + static_cast<std::size_t>(op.stream)];
      if (at < 0) {
        at = static_cast<std::int32_t>(uses.size());
        uses.push_back({buffer, id, id});
        begin_[to_size(buffer) + 1] += 2;
      }
      uses[static_cast<std::size_t>(at)].last = id;
    }
  }
  for (const BufferId id : role.buffers.ids()) {
    const Buffer& buffer = role.buffer(id);
    if (buffer.parent.valid() || !has_lifetime(id) || begin_[to_size(id) + 1] > 0) continue;
    uses.push_back({id, buffer.first, buffer.last});
    begin_[to_size(id) + 1] = 2;
  }
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  ops_.resize(2 * uses.size());
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  for (const OnStream& use : uses) {
    ops_[next[to_size(use.root)]++] = use.first;
    ops_[next[to_size(use.root)]++] = use.last;
  }
}

}  // namespace lockstep
