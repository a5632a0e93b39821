#include "tests/mutants/relax.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace lockstep::test {
namespace {

void give_own_bytes(Role& role) {
  constexpr std::int64_t kAlign = 256;
  std::int64_t device = 0, host = 0;
  for (Buffer& buffer : role.buffers) {
    if (buffer.first.valid()) {
      buffer.first = {0};
      buffer.last = {static_cast<std::int32_t>(role.ops.size()) - 1};
    }
    if (buffer.parent.valid()) continue;
    std::int64_t& end = buffer.on_host ? host : device;
    buffer.offset = end;
    end += (buffer.bytes.v + kAlign - 1) / kAlign * kAlign;
  }
  role.arena = Bytes{device};
  role.host_arena = Bytes{host};
}

void wait_for_all_before(Role& role) {
  std::array<std::int32_t, kNumStreams> last;  // of each stream so far, apart from messages
  last.fill(-1);
  std::map<std::int32_t, std::int32_t> message;  // by root: its last send or receive so far
  std::vector<OpId> after;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    Op& op = role.ops[i];
    std::array<std::int32_t, kNumStreams> wait;  // the latest of each stream to wait for
    wait.fill(-1);
    const auto add = [&](std::int32_t before) {
      if (before < 0 || before >= static_cast<std::int32_t>(i)) return;
      const Stream stream = role.ops[static_cast<std::size_t>(before)].stream;
      std::int32_t& latest = wait[static_cast<std::size_t>(stream)];
      if (stream != op.stream) latest = std::max(latest, before);
    };
    for (const OpId before : role.after_of(op)) add(before.v);
    if (op.kind != OpKind::Recv) {
      for (const std::int32_t before : last) add(before);
    }
    for (const BufferId arg : role.args_of(op)) {
      const auto found = message.find(role.root(arg).v);
      if (found != message.end()) add(found->second);
      if (is_p2p(op.kind)) message[role.root(arg).v] = static_cast<std::int32_t>(i);
    }
    if (!is_p2p(op.kind)) last[static_cast<std::size_t>(op.stream)] = static_cast<std::int32_t>(i);
    op.after_begin = static_cast<std::uint32_t>(after.size());
    op.after_count = 0;
    for (const std::int32_t before : wait) {
      if (before < 0) continue;
      after.push_back({before});
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
