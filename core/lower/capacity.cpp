#include "core/lower/capacity.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/free_list.hpp"

namespace lockstep {
namespace {

std::string gigabytes(Bytes bytes) {
  const std::int64_t tenths = (std::abs(bytes.v) + 50'000'000) / 100'000'000;
  return (bytes.v < 0 ? "-" : "") + std::to_string(tenths / 10) + "." +
         std::to_string(tenths % 10) + " GB";
}

/// The first op whose buffers reach the end of the device's arena; invalid if persistent buffers
/// do.
OpId peak_of(const Role& role) {
  OpId peak;
  for (const Buffer& buffer : role.buffers) {
    if (buffer.tier != Tier::Device || buffer.is_view() || buffer.bytes.v == 0) continue;
    const std::int64_t end = buffer.offset + round_up(buffer.bytes.v, FreeList::kAlignment);
    if (end != role.arena.v) continue;
    if (buffer.persistent()) return {};
    if (!peak.valid() || buffer.first() < peak) peak = buffer.first();
  }
  return peak;
}

std::string largest_buffers(const Program& program, const Role& role, OpId peak) {
  std::vector<const Buffer*> largest;
  for (const Buffer& buffer : role.buffers) {
    const bool alive =
        buffer.persistent() || (peak.valid() && buffer.first() <= peak && peak <= buffer.last());
    if (!buffer.is_view() && buffer.tier == Tier::Device && alive) largest.push_back(&buffer);
  }
  std::stable_sort(largest.begin(), largest.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes.v > b->bytes.v; });
  std::string text;
  for (std::size_t i = 0; i < largest.size() && i < 5; ++i) {
    text += (i ? ", " : " ") + std::string(to_string(largest[i]->kind)) + " " +
            program.names[largest[i]->name] + " " + gigabytes(largest[i]->bytes);
  }
  return text;
}

/// " (29.0 GB of the program, driver's context 0.6 GB, …)"; empty without terms.
std::string beside_the_arena(const DeviceMemory& memory) {
  std::string text;
  for (const MemoryTerm& term : memory.terms) {
    constexpr std::int64_t kShown = 50'000'000;
    if (term.given_back || std::abs(term.bytes.v) < kShown) continue;
    text += ", " + term.name + " " + gigabytes(term.bytes);
  }
  return text.empty() ? "" : " (" + gigabytes(memory.arena) + " of the program" + text + ")";
}

/// What the ranks of a node share: its host's memory, or its drives.
struct NodeStore {
  Tier tier;
  Bytes capacity;          // 0: no limit
  std::string_view place;  // "in the memory of their host"
  std::string_view key;    // that gives the capacity
  std::string_view remedy;
};

/// What the ranks of each node keep in `store`, together.
Result<void> check_node(const Program& program, const ClusterSpec& cluster,
                        const NodeStore& store) {
  const bool used = std::any_of(program.roles.begin(), program.roles.end(),
                                [&](const Role& role) { return role.arena_of(store.tier).v > 0; });
  if (store.capacity.v <= 0 || !used) return {};
  const int per_node = std::max(1, cluster.ranks_per_node());
  const int world = program.mesh.world_size();
  for (Rank first = 0; first < world; first += per_node) {
    const Rank end = std::min(first + per_node, world);
    Bytes needed{0};
    for (Rank rank = first; rank < end; ++rank) {
      needed += program.role_of(rank).arena_of(store.tier);
    }
    if (needed <= store.capacity) continue;
    return Error{ErrorKind::OutOfMemory,
                 "ranks " + std::to_string(first) + " to " + std::to_string(end - 1) + " need " +
                     gigabytes(needed) + " " + std::string(store.place) + " of their node, which " +
                     "has " + gigabytes(store.capacity) + " (" + std::string(store.key) +
                     "): " + std::string(store.remedy),
                 std::nullopt};
  }
  return {};
}

Result<void> check_nodes(const Program& program, const ClusterSpec& cluster) {
  const NodeStore host{Tier::Host, Bytes{cluster.devices_per_node * cluster.device.host_memory.v},
                       "in the host memory", "cluster.device.host_memory_gb",
                       "take more nodes, divide the states over more ranks (zero), or keep them on "
                       "drives (offload_optimizer_device = \"nvme\")"};
  const NodeStore drives{Tier::Drive, Bytes{cluster.drives.count * cluster.drives.capacity.v},
                         "on the drives", "cluster.drives", "take more nodes or larger drives"};
  const Result<void> in_host = check_node(program, cluster, host);
  return in_host ? check_node(program, cluster, drives) : in_host;
}

}  // namespace

Result<void> check_capacity(const Program& program, const ClusterSpec& cluster,
                            MemoryFigures* most) {
  if (auto fits = check_nodes(program, cluster); !fits) return fits;
  const Bytes capacity = memory_per_rank(cluster, program.mesh.world_size());
  if (capacity.v <= 0) {
    if (most) *most = most_memory(program, cluster);
    return {};
  }
  for (const Role& role : program.roles) {
    const DeviceMemory memory = device_memory(program, role, cluster);
    const MemoryFigures figures = memory.figures();
    const Bytes needed = figures.needed;
    if (most && needed > most->needed) *most = figures;
    if (needed <= capacity) continue;
    const OpId peak = peak_of(role);
    std::string text = "rank " + std::to_string(role.ranks.front()) + " needs " +
                       gigabytes(needed) + beside_the_arena(memory) + ", its device has " +
                       gigabytes(capacity) + " (" + gigabytes(needed - capacity) + " too little)";
    if (peak.valid()) {
      text +=
          "; the peak is at op %" + std::to_string(peak.v) + " " + describe(program, role, peak);
    }
    text += "; largest buffers:" + largest_buffers(program, role, peak);
    return Error{ErrorKind::OutOfMemory, text, std::nullopt};
  }
  return {};
}

}  // namespace lockstep
