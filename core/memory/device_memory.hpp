// Device memory: what a process needs on its device. The program's arena is exact; beside it stands
// what the framework, its libraries and the driver keep, term by term, each with its formula
// (docs/cost-model.md, memory).
#pragma once

#include <string>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/cluster/narrow_products.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Where a term lies, which decides what measures it.
enum class MemoryPlace {
  Tensors,  // among the framework's tensors: "max allocated" holds it
  Blocks,   // in its allocator's blocks, beside tensors: "max reserved" holds it, too
  Process,  // outside the allocator: only nvidia-smi shows it
};

struct MemoryTerm {
  std::string name;
  Bytes bytes;          // negative if a framework keeps less than the program's arena
  std::string formula;  // with the values of this program
  MemoryPlace place = MemoryPlace::Tensors;
  bool given_back = false;  // whether it is given back when memory is short
};

/// Sums over the terms. Each of them includes the arena.
struct MemoryFigures {
  Bytes allocated;  // the most that tensors take: PyTorch's max_memory_allocated
  Bytes process;    // what nvidia-smi shows
  Bytes needed;     // the part of `process` that is not given back when memory is short
  bool operator==(const MemoryFigures&) const = default;
};

struct DeviceMemory {
  Bytes arena;
  std::vector<MemoryTerm> terms;  // those that are not 0
  MemoryFigures figures() const;
};

/// The memory of a rank of `role`. A device that is its own host has no terms. Requires planned
/// memory, as in the result of lower().
DeviceMemory device_memory(const Program& program, const Role& role, const ClusterSpec& cluster);

/// The figures of the role that needs most. Requires a program with roles.
MemoryFigures most_memory(const Program& program, const ClusterSpec& cluster);

/// What a process keeps on its device beside its tensors in any program: the driver's context,
/// workspaces of cuBLAS, and NCCL's buffers of communicators over all `world` ranks and over groups
/// of these sizes. 0 for a device that is its own host.
Bytes least_beside_tensors(const ClusterSpec& cluster, int world, const std::vector<int>& groups);

/// How many bytes less the inputs of a forward function's products take where they are narrow
/// instead of 16 bits: each input that lies in what is saved loses what 16 bits take more. The
/// result of attention takes more instead, because it is kept in both types for its backward pass,
/// which reads 16 bits. 0 for a function of no block.
double saved_by_narrow_inputs(const Function& function, const NarrowProducts& narrow);

/// The device memory that each of `ranks` ranks has to itself, if several share a device. 0 if the
/// cluster names no limit.
Bytes memory_per_rank(const ClusterSpec& cluster, int ranks);

/// Whether a buffer is alive while op `at` runs. Persistent buffers always are.
bool is_alive(const Buffer& buffer, OpId at);
/// The first op of the list at which most bytes are alive in a tier; 0 for a role without ops.
OpId fullest_op(const Role& role, Tier tier = Tier::Device);
/// The bytes of all buffers that are alive at that op: the arena without its gaps.
Bytes most_alive(const Role& role, Tier tier = Tier::Device);

}  // namespace lockstep
