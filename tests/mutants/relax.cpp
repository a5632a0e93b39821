#include "tests/mutants/relax.hpp"

#include <algorithm>
#include <map>

namespace lockstep::test {
namespace {

void give_own_bytes(Role& role) {
  IndexArray<Tier, std::int64_t, kNumTiers> ends{};
  for (Buffer& buffer : role.buffers) {
    if (buffer.is_view()) continue;
    if (!buffer.persistent()) {
      buffer.set_lifetime({0}, {static_cast<std::int32_t>(role.ops.size()) - 1});
    }
    buffer.offset = ends[buffer.tier];
    ends[buffer.tier] += round_up(buffer.bytes.v, kDriveBlock);
  }
  role.arena = Bytes{ends[Tier::Device]};
  role.host_arena = Bytes{ends[Tier::Host]};
  role.drive_arena = Bytes{ends[Tier::Drive]};
}

void wait_for_all_before(Role& role) {
  IndexArray<Stream, OpId, kNumStreams> last;  // of each stream so far, apart from messages
  std::map<BufferId, OpId> message;            // by root: its last send or receive so far
  std::vector<OpId> after;
  for (const OpId id : role.ops.ids()) {
    Op& op = role.ops[id];
    IndexArray<Stream, OpId, kNumStreams> wait;  // the latest of each stream to wait for
    const auto add = [&](OpId before) {
      if (!before.valid() || before >= id) return;
      const Stream stream = role.op(before).stream;
      OpId& latest = wait[stream];
      if (stream != op.stream) latest = std::max(latest, before);
    };
    for (const OpId before : role.after_of(op)) add(before);
    if (op.kind != OpKind::Recv) {
      for (const OpId before : last) add(before);
    }
    for (const BufferId arg : role.args_of(op)) {
      const auto found = message.find(role.root(arg));
      if (found != message.end()) add(found->second);
      if (is_p2p(op.kind)) message[role.root(arg)] = id;
    }
    if (!is_p2p(op.kind)) last[op.stream] = id;
    op.after_begin = static_cast<std::uint32_t>(after.size());
    op.after_count = 0;
    for (const OpId before : wait) {
      if (!before.valid()) continue;
      after.push_back(before);
      ++op.after_count;
    }
  }
  role.after = std::move(after);
}

}  // namespace

Program relaxed(Program program) {
  for (Role& role : program.roles) {
    give_own_bytes(role);
    wait_for_all_before(role);
  }
  return program;
}

}  // namespace lockstep::test
