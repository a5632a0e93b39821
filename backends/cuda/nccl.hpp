// Nccl: the calls of libnccl that the communicator makes. The real ones are in
// backends/cuda/toolkit; tests record them. Error kind Device, naming call and reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

using CommHandle = struct CommTag*;
using NcclId = std::array<std::byte, 128>;

/// Calls on one communicator come from one thread at a time. None blocks: communicators are of
/// NCCL's non-blocking kind. A call, or the end of the group that it is in, may come back before it
/// is taken: until ready() says so, nothing else may be called on the communicator, and nothing
/// given to the stream lies behind the call.
struct Nccl {
  virtual ~Nccl() = default;
  virtual Result<NcclId> unique_id() = 0;
  /// Begins to join; ready() says when all members have. `blocks`: most thread blocks of a kernel.
  virtual Result<CommHandle> join(Driver& gpu, const NcclId& id, int size, int position,
                                  int blocks) = 0;
  /// Whether all calls so far are taken. Error: the communicator has failed, by a peer's or the
  /// network's fault.
  virtual Result<bool> ready(CommHandle comm) = 0;
  virtual void abort(CommHandle comm) = 0;    // ends its kernels; then it is gone
  virtual void destroy(CommHandle comm) = 0;  // of a communicator at rest

  virtual Result<void> group_start() = 0;
  virtual Result<void> group_end() = 0;
  /// `elements` are those of the whole buffer of an all-reduce, broadcast or message, and of one
  /// member's part of the others.
  virtual Result<void> all_reduce(CommHandle comm, StreamHandle stream, std::byte* buffer,
                                  std::int64_t elements, DType dtype) = 0;
  virtual Result<void> all_gather(CommHandle comm, StreamHandle stream, const std::byte* from,
                                  std::byte* to, std::int64_t elements, DType dtype) = 0;
  virtual Result<void> reduce_scatter(CommHandle comm, StreamHandle stream, const std::byte* from,
                                      std::byte* to, std::int64_t elements, DType dtype) = 0;
  virtual Result<void> broadcast(CommHandle comm, StreamHandle stream, std::byte* buffer,
                                 std::int64_t elements, DType dtype) = 0;  // from position 0
  virtual Result<void> send(CommHandle comm, StreamHandle stream, const std::byte* from,
                            std::int64_t elements, DType dtype, int to) = 0;
  virtual Result<void> receive(CommHandle comm, StreamHandle stream, std::byte* to,
                               std::int64_t elements, DType dtype, int from) = 0;
};

}  // namespace lockstep::cuda
