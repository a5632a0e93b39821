// What the names in a Kineto file mean: categories of events, collectives, element types. They
// follow Kineto's output_json.cpp and PyTorch's ParamCommsUtils. Internal to core/trace/kineto.
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

/// Whose time an event takes. Each family of a (pid, tid) is a track of its own, so that an
/// annotation over kernels, or a wait among them, does not count as overlapping them.
enum class Family : std::uint8_t { Device, DeviceSync, DeviceAnnotation, Host };
inline constexpr int kNumFamilies = 4;

struct Category {
  Family family = Family::Host;
  Kind kind = Kind::Host;
};

/// The category for an event's "cat"; unknown ones belong to the host. NCCL's kernels are told from
/// others by their name (is_collective_kernel).
Category category_of(std::string_view cat);

/// The kind of a collective or message, from names such as "allreduce", "_allgather_base" or
/// "ncclDevKernel_SendRecv(…)".
Kind kind_of_collective(std::string_view name);
bool is_collective_kernel(std::string_view name);

/// Bytes of an element of torch's scalar type ("BFloat16"); 0: unknown.
std::int64_t bytes_of_dtype(std::string_view dtype);

/// The ranks in "[0, 1, 2, ...]", up to the dots.
std::vector<int> parse_ranks(std::string_view text);

/// The step in the name "ProfilerStep#12", here 12; -1 for any other name.
std::int32_t step_of(std::string_view name);

}  // namespace lockstep::kineto
