// CpuCommunicator: transfers between ranks that are threads of this process.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/fabric.hpp"
#include "core/run/device.hpp"

namespace lockstep::cpu {

/// One rank's end. Transfers run on the threads of the device's streams. The n-th transfer that a
/// rank enqueues on a group or channel meets the n-th of its peers.
class CpuCommunicator final : public Communicator {
 public:
  /// All three outlive the communicator; `device` is the one of `rank`.
  CpuCommunicator(const Program& program, Rank rank, CpuDevice& device, Fabric& fabric);

  /// Errors: Internal if the rank is outside its group, if a gather's or scatter's shards do not
  /// add up to its full buffer; Unsupported for a sum of a type that is not computed with here.
  Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype) override;
  void abort(const Error& reason) override { fabric_.fail(reason); }

 private:
  struct Place {
    Meeting* meeting = nullptr;
    int position = -1;
    int size = 0;
  };
  Place place(const Op& op) const;

  const Program& program_;
  Rank rank_;
  CpuDevice& device_;
  Fabric& fabric_;
  std::vector<Place> places_;                  // by op; no meeting: not a transfer
  std::map<Meeting*, std::int64_t> sequence_;  // transfers enqueued so far
};

}  // namespace lockstep::cpu
