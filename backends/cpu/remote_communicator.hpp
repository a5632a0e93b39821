// RemoteCommunicator: transfers between ranks that are processes of their own, made of messages.
// Sums are taken in the order of the members, as in backends/local/collectives.hpp, so the results
// are those of ranks that are threads, bit for bit.
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

/// Rank r is process r. Transfers run on the threads of the device's streams; each first tells all
/// its members what it is and waits until all have come, then moves the data. The n-th transfer
/// that a rank enqueues on a group, or with a peer in one direction, meets the n-th of its peers,
/// and has a tag of its own: no stream ever waits for another's messages.
class RemoteCommunicator final : public Communicator {
 public:
  /// All three outlive the communicator; `device` is the one of `rank`.
  RemoteCommunicator(const Program& program, Rank rank, CpuDevice& device, Process& process);

  /// Errors: Internal if the rank is outside its group, and those of party_of.
  Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype) override;
  void abort(const Error& reason) override { process_.fail(reason); }

 private:
  struct Lane : Route {
    int lane = 0;  // tells apart what two ranks may have under way at once
  };
  struct Transfer {
    const Lane* route = nullptr;
    int tag = 0;
    Party party;
    std::vector<std::byte>* scratch = nullptr;  // of the stream
  };
  Lane lane(const Op& op) const;
  int next_tag(const Lane& route);
  /// Both run on a stream's thread; false once the run has failed.
  bool meet(const Transfer& transfer, SimTime& active);
  bool move(const Transfer& transfer);
  bool all_reduce(const Transfer& transfer);
  bool reduce_scatter(const Transfer& transfer);
  /// Part i of `parts` goes to member i; part i of the target comes from member i.
  bool all_to_all(const Transfer& transfer, std::int64_t part);
  bool all_gather(const Transfer& transfer, std::int64_t part);
  bool from_first(const Transfer& transfer);

  Rank rank_;
  const Program& program_;
  CpuDevice& device_;
  Process& process_;
  int lanes_ = 0;
  IndexVector<OpId, Lane> routes_;                         // by op; no members: not a transfer
  std::map<std::pair<int, Rank>, std::int64_t> sequence_;  // by lane and first other member
  IndexArray<Stream, std::vector<std::byte>, kNumStreams> scratch_;
};

}  // namespace lockstep::cpu
