// ReferenceCommunicator: transfers between ranks that are threads of this process, through the
// fabric of backends/local.
#pragma once

#include "backends/local/appointments.hpp"
#include "backends/reference/reference_device.hpp"
#include "core/run/device.hpp"

namespace lockstep::reference {

/// The communicator of one rank. A transfer is an op of the device's stream like any other.
class ReferenceCommunicator final : public Communicator {
 public:
  /// `program`, `device` and `fabric` must outlive the communicator; `device` is that of `rank`.
  ReferenceCommunicator(const Program& program, Rank rank, ReferenceDevice& device,
                        local::Fabric& fabric)
      : device_(device), fabric_(fabric), appointments_(program, rank, fabric) {}

  /// Errors are those of Appointments::next().
  Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype) override;
  void abort(const Error& reason) override { fabric_.fail(reason); }

 private:
  ReferenceDevice& device_;
  local::Fabric& fabric_;
  local::Appointments appointments_;
};

}  // namespace lockstep::reference
