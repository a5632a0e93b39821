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

}  // namespace lockstep
