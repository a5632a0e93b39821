// CpuCommunicator: transfers between ranks that are threads of this process.
#pragma once

#include "backends/cpu/cpu_device.hpp"
#include "backends/local/appointments.hpp"
#include "core/run/device.hpp"

namespace lockstep::cpu {

/// The communicator of one rank. Transfers run on the threads of the device's streams.
class CpuCommunicator final : public Communicator {
 public:
  /// `program`, `device` and `fabric` must outlive the communicator; `device` is that of `rank`.
  CpuCommunicator(const Program& program, Rank rank, CpuDevice& device, local::Fabric& fabric)
      : device_(device), fabric_(fabric), appointments_(program, rank, fabric) {}

  /// Errors are those of Appointments::next().
  Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype) override;
  void abort(const Error& reason) override { fabric_.fail(reason); }

 private:
  CpuDevice& device_;
  local::Fabric& fabric_;
  local::Appointments appointments_;
};

}  // namespace lockstep::cpu
