// Nccl: the calls of libnccl that the communicator makes. The real ones are in
// backends/cuda/toolkit; tests record them. Errors are of kind Device and name the call and the
// reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

using CommHandle = struct CommTag*;
using NcclId = std::array<std::byte, 128>;

/// One thread at a time may make calls on a communicator. No call blocks, because communicators are
/// of NCCL's non-blocking kind: a call, or the end of the group that it is in, may return before
/// NCCL has taken it. Until ready() says that it has, nothing else may be called on the
/// communicator, and what is given to the stream is not ordered after the call.
struct Nccl {
  virtual ~Nccl() = default;
  virtual Result<NcclId> unique_id() = 0;
  /// Begins to join a communicator; ready() says when all members have joined. `blocks` is the most
  /// thread blocks that a kernel may have.
  virtual Result<CommHandle> join(Driver& gpu, const NcclId& id, int size, int position,
                                  int blocks) = 0;
  /// Whether NCCL has taken all calls so far. Error if the communicator has failed because of a
  /// peer or the network.
  virtual Result<bool> ready(CommHandle comm) = 0;
  virtual void abort(CommHandle comm) = 0;    // ends its kernels and destroys it
  virtual void destroy(CommHandle comm) = 0;  // requires that nothing is under way on it

  virtual Result<void> group_start() = 0;
  virtual Result<void> group_end() = 0;
  /// `elements` counts the whole buffer of an all-reduce, broadcast or message, and one member's
  /// part in the other collectives.
  virtual Result<void> all_reduce(CommHandle comm, StreamHandle stream, std::byte* buffer,
                                  std::int64_t elements, DType dtype, bool largest) = 0;
  virtual Result<void> all_gather(CommHandle comm, StreamHandle stream, const std::byte* from,
                                  std::byte* to, std::int64_t elements, DType dtype) = 0;
  virtual Result<void> reduce_scatter(CommHandle comm, StreamHandle stream, const std::byte* from,
                                      std::byte* to, std::int64_t elements, DType dtype) = 0;
  /// The sum goes to `to` of the root alone.
  virtual Result<void> reduce(CommHandle comm, StreamHandle stream, const std::byte* from,
                              std::byte* to, std::int64_t elements, DType dtype, int root) = 0;
  virtual Result<void> broadcast(CommHandle comm, StreamHandle stream, std::byte* buffer,
                                 std::int64_t elements, DType dtype, int root) = 0;
  virtual Result<void> send(CommHandle comm, StreamHandle stream, const std::byte* from,
                            std::int64_t elements, DType dtype, int to) = 0;
  virtual Result<void> receive(CommHandle comm, StreamHandle stream, std::byte* to,
                               std::int64_t elements, DType dtype, int from) = 0;
};

}  // namespace lockstep::cuda
