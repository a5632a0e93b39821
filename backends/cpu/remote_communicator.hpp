// RemoteCommunicator: transfers between ranks that are processes of their own, made of messages.
// Sums are taken in the order of the members, as in backends/local/collectives.hpp, so that the
// results equal those of ranks that are threads, bit for bit.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_device.hpp"
#include "backends/local/fabric.hpp"
#include "core/base/index_vector.hpp"
#include "core/run/device.hpp"
#include "core/run/process.hpp"

namespace lockstep::cpu {

/// Rank r is process r. Transfers run on the threads of the device's streams. In a transfer, each
/// member first tells the others what it brings and waits until all have come; then the data move.
/// The n-th transfer that a rank enqueues on a group, or with a peer in one direction, meets the
/// n-th of its peers. It has a tag of its own, so that no stream waits for the messages of another.
class RemoteCommunicator final : public Communicator {
 public:
  /// `program`, `device` and `process` must outlive the communicator; `device` is that of `rank`.
  RemoteCommunicator(const Program& program, Rank rank, CpuDevice& device, Process& process);

  /// Errors: Internal if the rank is outside the group of the op, and those of party_of().
  Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype) override;
  void abort(const Error& reason) override { process_.fail(reason); }

 private:
  struct Lane : Route {
    int lane = 0;  // distinguishes transfers that two ranks may have under way at the same time
  };
  struct Transfer {
    const Lane* route = nullptr;
    int tag = 0;
    Party party;
    std::vector<std::byte>* scratch = nullptr;  // scratch memory of the op's stream
  };
  Lane lane(const Op& op) const;
  int next_tag(const Lane& route);
  /// These run on the thread of a stream and return false once the run has failed.
  bool meet(const Transfer& transfer, SimTime& active);
  bool move(const Transfer& transfer);
  bool all_reduce(const Transfer& transfer);
  bool reduce_scatter(const Transfer& transfer);
  /// Part i of the source goes to member i; part i of the target comes from member i.
  bool all_to_all(const Transfer& transfer, std::int64_t part);
  bool all_to_all_rows(const Transfer& transfer);
  bool all_gather_rows(const Transfer& transfer);
  bool reduce_scatter_rows(const Transfer& transfer);
  bool rotate(const Transfer& transfer);
  bool all_gather(const Transfer& transfer, std::int64_t part);
  bool from_root(const Transfer& transfer);

  Rank rank_;
  const Program& program_;
  CpuDevice& device_;
  Process& process_;
  int lanes_ = 0;
  IndexVector<OpId, Lane> routes_;                         // by op; no members if it is no transfer
  std::map<std::pair<int, Rank>, std::int64_t> sequence_;  // by lane and first other member
  IndexArray<Stream, std::vector<std::byte>, kNumStreams> scratch_;
};

}  // namespace lockstep::cpu
