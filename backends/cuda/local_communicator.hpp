// LocalCommunicator: transfers between ranks that share one GPU, by copies within the device and
// sums in rank order. No kernel ever waits for another, so that any number of ranks fits a GPU. The
// results equal those of the CPU's collectives bit for bit. The times say nothing about a network.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backends/cuda/cuda_device.hpp"
#include "core/base/index_vector.hpp"
#include "core/run/device.hpp"

namespace lockstep::cuda {

/// The communicator of one rank. The n-th transfer that a rank enqueues on a group or channel meets
/// the n-th of its peers. The last member to come issues it for all, on the first member's stream.
class LocalCommunicator final : public Communicator {
 public:
  /// `program` and `device` must outlive the communicator. `device` is that of `rank`; all members
  /// have the same node.
  LocalCommunicator(const Program& program, Rank rank, CudaDevice& device);

  /// Errors: Internal if the rank is outside its group or the shards of a gather or scatter do not
  /// add up to its full buffer; Unsupported for a sum of a type that is not added here.
  Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype) override;
  void abort(const Error& reason) override { device_.node().fail(reason); }

 private:
  struct Place {
    Route route;
    Meeting* meeting = nullptr;  // null if the op is no transfer
  };
  Place place(const Op& op) const;
  Result<void> arrive(const Place& place, std::int64_t number, const Member& member);

  const Program& program_;
  Rank rank_;
  CudaDevice& device_;
  IndexVector<OpId, Place> places_;          // by op
  std::map<Meeting*, std::int64_t> number_;  // transfers enqueued so far
};

}  // namespace lockstep::cuda
