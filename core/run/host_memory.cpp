#include "core/run/host_memory.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>

#include "core/base/free_memory.hpp"
#include "core/format/format.hpp"

namespace lockstep {
namespace {

/// What a process maps beside arenas and stacks: its heap, buffers of files and of messages.
constexpr Bytes kBesides{64 << 20};
/// Threads that a process has whatever it runs: they watch, and they save.
constexpr int kOwnThreads = 2;

/// The most threads that one rank has: one of each stream that its ops use, a team of threads for
/// those that compute, and the one that issues them.
int threads_of(const Role& role, int threads_per_rank) {
  std::array<bool, kNumStreams> used{};
  for (const Op& op : role.ops) used[static_cast<std::size_t>(op.stream)] = true;
  const auto streams = static_cast<int>(std::count(used.begin(), used.end(), true));
  return 1 + streams + 2 * (std::max(threads_per_rank, 1) - 1);
}

Bytes stack_size() {
  pthread_attr_t attributes;
  std::size_t bytes = 0;
  pthread_attr_init(&attributes);
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return Bytes{static_cast<std::int64_t>(bytes)};
}

Bytes arenas_of(const Program& program, HostRanks ranks) {
  Bytes bytes{0};
  for (Rank rank = ranks.first; rank < ranks.end; ++rank) {
    const Role& role = program.role_of(rank);
    bytes += role.arena + role.host_arena;
  }
  return bytes;
}

Error refusal(HostRanks ranks, const std::string& where, Bytes needed, Bytes free) {
  const int count = ranks.end - ranks.first;
  return {ErrorKind::OutOfMemory,
          std::to_string(count) + (count == 1 ? " rank is" : " ranks are") + " kept in " + where +
              ": " + bytes_text(needed) + " are needed, " + bytes_text(free) + " are free",
          std::nullopt};
}

}  // namespace

Result<void> check_host_memory(const Program& program, HostRanks machine, HostRanks own,
                               int threads_per_rank) {
  const Bytes arenas = arenas_of(program, machine);
  const Bytes free = free_memory();
  if (free.v > 0 && arenas > free) {
    return refusal(machine, "the memory of this machine", arenas, free);
  }
  const std::optional<Bytes> room = free_address_space();
  if (!room) return {};
  int threads = kOwnThreads;
  for (Rank rank = own.first; rank < own.end; ++rank) {
    threads += threads_of(program.role_of(rank), threads_per_rank);
  }
  const Bytes mapped = arenas_of(program, own) + Bytes{threads * stack_size().v} + kBesides;
  if (mapped <= *room) return {};
  return refusal(own, "what this process may map, with its threads (ulimit -v)", mapped, *room);
}

}  // namespace lockstep
