// What the names in a Kineto file mean: categories of events, collectives, element types.
// After kineto's output_json.cpp and PyTorch's ParamCommsUtils. Internal to core/trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kineto {

/// TraceOp::kind of an event.
enum class Kind : std::uint8_t {
  Compute,  // of unknown phase
  Forward,
  Backward,
  Optimizer,
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  AllToAll,
  Reduce,
  Gather,
  Scatter,
  Barrier,
  Send,
  Recv,
  SendRecv,
  Communication,
  Memcpy,
  Memset,
  Host,
  Annotation,
  Sync
};
std::string_view to_string(Kind kind);

/// Whose time an event takes: each family of a (pid, tid) is a track of its own, so that an
/// annotation over kernels, or a wait among them, does not count as overlapping them.
enum class Family : std::uint8_t { Device, DeviceSync, DeviceAnnotation, Host };
inline constexpr int kNumFamilies = 4;

struct Category {
  Family family = Family::Host;
  Kind kind = Kind::Host;
};

/// Of an event's "cat"; unknown ones are the host's. NCCL kernels are told apart by their name.
Category category_of(std::string_view cat);

/// "allreduce", "_allgather_base", "ncclDevKernel_SendRecv(…)".
Kind kind_of_collective(std::string_view name);
bool is_collective_kernel(std::string_view name);

/// Of torch's scalar types ("BFloat16"); 0: unknown.
std::int64_t bytes_of_dtype(std::string_view dtype);

/// "[0, 1, 2, ...]": the ranks before the dots.
std::vector<int> parse_ranks(std::string_view text);

/// "ProfilerStep#12": 12; -1: another name.
std::int32_t step_of(std::string_view name);

}  // namespace lockstep::kineto
